"""Version 2 of the official TypeScript and Python SDKs with v1 peers, through `dragoman translate`.

The Rust SDK is built by `make interop`; a recorded agent of it is in tests/pairs/test_v2_recordings.py.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.transport.process.transport import spawn
from tests.interop.commands import EVERYTHING, HERE, RUN, node, peer, translate
from tests.interop.remote import RemoteClient
from tests.interop.v2_turns import check_seen
from tests.pairs.peers import HandClient
from tests.pairs.words import WORDS

PEERS_V2 = HERE.parents[1] / "interop" / "peers"
PYTHON_SDK = HERE.parents[1] / ".cache" / "python_sdk_v2"
TIMEOUT = 90.0


def python_peer(name: str) -> list[str]:
    """The command of a peer with the Python SDK of version 2, which has a folder of its own."""
    assert (PYTHON_SDK / "acp").exists(), "the Python SDK of version 2 is not installed; run the tests by `make test`"
    return ["env", f"PYTHONPATH={PYTHON_SDK}", sys.executable, str(PEERS_V2 / f"{name}.py")]


def agent_of(sdk: str, home: Path) -> list[str]:
    """The command of the agent of `make interop`, with a home of its own."""
    home.mkdir()
    if sdk == "python":
        return ["env", f"HOME={home}", *python_peer("sdk_agent_v2")]
    (home / "node_modules").symlink_to(HERE / "node_modules")
    shutil.copy(PEERS_V2 / "sdk_agent_v2.mjs", home)
    return ["env", f"HOME={home}", node(), str(home / "sdk_agent_v2.mjs")]


@pytest.fixture
def agent(tmp_path: Path) -> list[str]:
    """The agent of the TypeScript SDK."""
    return agent_of("typescript", tmp_path / "home")


@pytest.mark.item("V2-30")
@pytest.mark.parametrize(("sdk", "dialect"), [("typescript", "auto"), ("typescript", "v2"), ("python", "v2")])
def test_a_v1_client_uses_a_v2_agent_through_translate(
    client: RemoteClient, tmp_path: Path, folder: Path, sdk: str, dialect: str
) -> None:
    agent = agent_of(sdk, tmp_path / "home")
    introduction = client("start", command=translate(*agent, agent_dialect=dialect), cwd=str(folder)).result
    assert introduction["agentInfo"]["name"].casefold() == f"official {sdk} SDK, v2".casefold()
    assert introduction["agentCapabilities"]["loadSession"] is True
    session = client("new", cwd=str(folder)).result["sessionId"]

    hello = client("prompt", session=session, text="[[say Hello from version 2]]")
    assert (hello.text, hello.result["stopReason"]) == ("Hello from version 2", "end_turn")
    assert hello.of("user_message_chunk") == []

    note = folder.parent / "note.txt"
    refused = client("prompt", session=session, text=f"[[write {note} words]]", answer="reject_once")
    assert (len(refused.asked), refused.text, note.exists()) == (1, "I may not.", False)
    assert refused.of("tool_call_update")[-1]["status"] == "failed"
    allowed = client("prompt", session=session, text=f"[[write {note} words]]", answer="allow_once")
    assert (len(allowed.asked), allowed.text, note.read_text()) == (1, "Written.", "words")
    assert allowed.of("tool_call_update")[-1]["status"] == "completed"
    shell = client("prompt", session=session, text="[[run echo from the shell]]", answer="allow_once")
    assert "from the shell\n" in json.dumps(shell.updates).replace("\\n", "\n")

    cancelled = client("prompt", session=session, text="[[slow 60]]", cancel_on="agent_message_chunk")
    assert cancelled.result["stopReason"] == "cancelled"
    assert client("prompt", session=session, text="[[say Again]]").text == "Again"
    client("stop")

    client("start", command=translate(*agent, agent_dialect=dialect), cwd=str(folder))
    loaded = client("load", session=session, cwd=str(folder))
    assert loaded.of("user_message_chunk")[0]["content"]["text"] == "[[say Hello from version 2]]"
    assert "Hello from version 2" in client("prompt", session=session, text="[[recall]]").text


async def test_a_draft_client_uses_a_v2_agent_through_translate(agent: list[str], tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT):
        transport = await spawn(translate(*agent))
        try:
            client = HandClient(transport, WORDS["draft"])
            await client.open(cwd=str(tmp_path))
            await client.prompt("[[say Hello]]")
            assert ("says", "Hello") in client.events
            note = tmp_path / "note.txt"
            await client.prompt(f"[[write {note} words]]")
            assert note.read_text() == "words"
            prompt = client.ask("session/prompt", client.words.prompt(client.session, "[[slow 60]]"))
            await client.event(("says", "0 "))
            method, params = client.words.cancel(client.session)
            client.ask(method, params) if client.words.cancel_is_request else client.notify(method, params)
            assert client.words.reason((await client.answer(prompt))["result"]) == "cancelled"
        finally:
            await transport.close()


def test_run_uses_a_v2_agent(agent: list[str], folder: Path) -> None:
    command = [*RUN, "--json", "--dialect", "v2", "[[say Hello]]", "--", *agent]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["body"]["text"] == "Hello"


@pytest.mark.item("V2-30")
@pytest.mark.parametrize("sdk", ["typescript", "python"])
def test_a_v2_client_uses_a_v1_agent_through_translate(folder: Path, sdk: str) -> None:
    client = python_peer("sdk_client_v2") if sdk == "python" else peer("ts_client_v2")
    command = [*client, str(folder), *translate(*EVERYTHING, "--dialect", "v1")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert ended.returncode == 0, ended.stderr
    check_seen(json.loads(ended.stdout), folder)
