"""`dragoman translate` in the middle: clients and agents of the official SDKs, and agents of every other dialect."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path

import pytest

from dragoman import WorkspaceAccess, connect
from tests.interop.commands import EVERYTHING, peer, translate
from tests.interop.remote import RemoteClient

OTHERS = {"py_client": "ts_agent", "ts_client": "py_agent"}


def test_the_official_sdks_work_together_through_translate(client: RemoteClient, tmp_path: Path) -> None:
    agent = OTHERS[client.name]
    introduction = client("start", command=translate(*peer(agent)), cwd=str(tmp_path)).result
    assert introduction["agentInfo"]["name"] == {"py_agent": "python", "ts_agent": "typescript"}[agent]
    opened = client("new", cwd=str(tmp_path)).result
    assert opened["modes"]["currentModeId"] == "ask"
    session = opened["sessionId"]

    tour = client("prompt", session=session, text="tour")
    assert tour.kinds()[:4] == ["agent_thought_chunk", "plan", "tool_call", "tool_call_update"]
    assert tour.text == "one two three"
    for answer, received in (("allow_once", "yes"), ("reject_once", "no"), (None, "cancelled")):
        turn = client("prompt", session=session, text="ask", answer=answer)
        assert (len(turn.asked), turn.text) == (1, received)
    assert client("prompt", session=session, text=f"write {tmp_path}/ö.txt zwei 😀").calls == ["write"]
    assert client("prompt", session=session, text=f"read {tmp_path}/ö.txt").text == "zwei 😀"
    assert client("prompt", session=session, text=f"read {tmp_path}/none").text.startswith("error -32002")
    assert json.loads(client("prompt", session=session, text="run echo hällo").text) == [0, None, "hällo\n", False]
    assert "kill" in client("prompt", session=session, text="kill").calls
    assert client("prompt", session=session, text="big 1000000").text == "é" * 1_000_000
    assert client("prompt", session=session, text="half").text.endswith("a whole: 😀 中文 \x00 \u2028 ß")
    assert client("prompt", session=session, text="extension").text.startswith("error -32601")
    assert client.tried("extension", method="example.org/unknown", params={}).error["code"] == -32601
    cancelled = client("prompt", session=session, text="slow", cancel_on="tool_call")
    assert cancelled.result["stopReason"] == "cancelled"

    client("mode", session=session, mode="code")
    loaded = client("load", session=session, cwd=str(tmp_path))
    assert loaded.result["modes"]["currentModeId"] == "code"
    assert loaded.of("user_message_chunk")[0]["content"]["text"] == "tour"


@pytest.mark.parametrize(
    "dialect",
    [
        pytest.param("v1", marks=pytest.mark.item("001-02")),
        "banjo",
        pytest.param("2025.1", marks=pytest.mark.item("000-01")),
        "crow",
        "draft",
    ],
)
def test_a_client_of_an_official_sdk_works_with_an_agent_of_any_dialect(
    client: RemoteClient, folder: Path, dialect: str
) -> None:
    # A banjo agent introduces itself as one of v1 does: it has to be named.
    named = dialect if dialect == "banjo" else "auto"
    command = translate(*EVERYTHING, "--dialect", dialect, agent_dialect=named)
    introduction = client("start", command=command, cwd=str(folder)).result
    assert introduction["protocolVersion"] == 1
    assert introduction["agentInfo"]["name"] == "everything"
    session = client("new", cwd=str(folder)).result["sessionId"]

    plain = client("prompt", session=session, text="eins zwei drei vier fünf 😀")
    assert plain.result["stopReason"] == "end_turn"
    assert len(plain.of("agent_message_chunk")) > 3
    assert "> eins zwei drei vier fünf 😀\n" in plain.text
    assert client("prompt", session=session, text="/echo half \ud83d").text == "half \ufffd"
    assert client("prompt", session=session, text="/think hm").of("agent_thought_chunk")[0]["content"]["text"] == "hm"
    plan = client("prompt", session=session, text="/plan").of("plan")[-1]
    assert [entry["status"] for entry in plan["entries"]] == ["completed"] * 3

    # A 2025.1 agent cannot ask: it may do what the client offers.
    asked = 0 if dialect == "2025.1" else 1
    written = client("prompt", session=session, text="/write new.txt zwei Wörter", answer="allow_once")
    assert len(written.asked) == asked
    assert written.calls == ["read", "write"]
    assert written.of("tool_call_update")[-1]["status"] == "completed"
    assert (folder / "new.txt").read_text(encoding="utf-8") == "zwei Wörter"
    if asked:
        left = client("prompt", session=session, text="/write other.txt text", answer="reject_once")
        assert left.of("tool_call_update")[-1]["status"] == "failed"
        assert not (folder / "other.txt").exists()
    ran = client("prompt", session=session, text="/run echo hällo > out; exit 3", answer="allow_once")
    assert "exit code 3" in ran.text
    assert (folder / "out").read_text(encoding="utf-8") == "hällo\n"

    cancelled = client("prompt", session=session, text="/slow 300", cancel_on="tool_call")
    assert cancelled.result["stopReason"] == "cancelled"

    loaded = client("load", session=session, cwd=str(folder))
    replayed = [u["content"]["text"] for u in loaded.updates if u["sessionUpdate"].endswith("message_chunk")]
    assert replayed[0] == "eins zwei drei vier fünf 😀"
    assert client("prompt", session=session, text="/echo on").text == "on"


def test_invalid_lines_that_end_an_official_client_do_not_reach_it(client: RemoteClient, folder: Path) -> None:
    """A line of JSON that is no message ends the official Python client (docs/protocol/peers.md#sdk-non-object);
    we drop it.
    """
    noisy = ["/bin/sh", "-c", f"echo 5; echo '[1]'; echo loading...; exec {shlex.join(EVERYTHING)}"]
    client("start", command=translate(*noisy), cwd=str(folder))
    session = client("new", cwd=str(folder)).result["sessionId"]
    assert client("prompt", session=session, text="/noise").result["stopReason"] == "end_turn"
    assert client("prompt", session=session, text="/echo on").text == "on"


def test_a_2025_agent_has_a_process_for_each_folder(client: RemoteClient, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    client("start", command=translate(*EVERYTHING, "--dialect", "2025.1"), cwd=str(tmp_path))
    sessions = {client("new", cwd=str(tmp_path / name)).result["sessionId"]: name for name in ("a", "b", "c", "a")}
    for session, name in sessions.items():
        client("prompt", session=session, text=f"/write note.txt {name}", answer="allow_once")
        assert (tmp_path / name / "note.txt").read_text() == name
        client("prompt", session=session, text="/run pwd > where.txt", answer="allow_once")
        assert (tmp_path / name / "where.txt").read_text().strip() == str(tmp_path / name)


async def test_our_client_opens_sessions_of_a_2025_agent_in_several_folders_at_once(tmp_path: Path) -> None:
    names = ("a", "b", "c", "b")
    for name in set(names):
        (tmp_path / name).mkdir()

    workspace = WorkspaceAccess()
    command = [*EVERYTHING, "--dialect", "2025.1"]
    async with asyncio.timeout(30), connect(command, cwd=str(tmp_path), workspace=workspace) as agent:
        assert agent.dialect == "2025.1"
        sessions = await asyncio.gather(*(agent.open_session(str(tmp_path / name)) for name in names))
        for session, name in zip(sessions, names, strict=True):
            assert "Created" in await session.ask(f"/write {session.id} {name}")
            assert (tmp_path / name / session.id).read_text() == name
