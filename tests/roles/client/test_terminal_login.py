"""Login in a terminal: run the agent's own command for the user, then restart the agent."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Turn, connect
from dragoman.roles.client.callbacks import TerminalLogin, run_in_terminal
from dragoman.schema.auth import AuthMethod
from dragoman.schema.content import TextContent
from dragoman.testing import ScriptedPeer, connect_in_memory
from dragoman.transport.memory import memory_pair
from dragoman.transport.sandbox.spec import Sandbox

# An agent that works for those who signed in: `--login` writes the token, a session needs it.
AGENT = """
import os, sys
from pathlib import Path
from dragoman import Agent, Kind, ProtocolError, Turn
from dragoman.schema.auth import AuthMethod

TOKEN = Path(__file__).with_name("token")

if "--login" in sys.argv:
    TOKEN.write_text(os.environ["WHO"] + " " + os.environ["BASE"])
    sys.exit(int(os.environ["EXIT"]))

method = AuthMethod(
    id="device", name="Device", type="terminal", args=["--login", "now"], env={"WHO": "Ada", "EXIT": sys.argv[1]}
)
agent = Agent("guarded", version="1", auth_methods=[method])

@agent.prompt
async def answer(turn: Turn) -> None:
    if not TOKEN.exists():
        raise ProtocolError(Kind.AUTH_REQUIRED, "sign in first")
    await turn.say(f"hello {TOKEN.read_text()}, from {os.getpid()}")

agent.run()
"""


def command(folder: Path, exit_code: int) -> list[str]:
    script = folder / "agent.py"
    script.write_text(AGENT, encoding="utf-8")
    return [sys.executable, str(script), str(exit_code)]


async def test_the_user_logs_in_by_the_agents_own_command_and_the_agent_restarts(tmp_path: Path) -> None:
    words = command(tmp_path, 0)
    ran: list[TerminalLogin] = []

    async def runner(signing: TerminalLogin) -> int:
        ran.append(signing)
        return await run_in_terminal(signing)

    async with connect(words, dialect="v1", cwd=str(tmp_path), env={"BASE": "x"}, terminal_login=runner) as remote:
        session = await remote.open_session(str(tmp_path))
        with pytest.raises(ProtocolError) as caught:
            await session.ask("hi")
        assert caught.value.kind == Kind.AUTH_REQUIRED
        before = remote.connection
        await remote.authenticate("device")
        assert remote.connection is not before
        assert before.failure is not None
        assert (ran[0].command, ran[0].cwd) == ([*words, "--login", "now"], str(tmp_path))
        assert (ran[0].env["WHO"], ran[0].env["BASE"]) == ("Ada", "x")
        assert "PATH" in ran[0].env
        session = await remote.open_session(str(tmp_path))
        assert (await session.ask("hi")).startswith("hello Ada x, from ")


async def test_an_agent_in_a_sandbox_sets_no_variables_for_its_login_outside(tmp_path: Path) -> None:
    ran: list[TerminalLogin] = []

    def runner(signing: TerminalLogin) -> int:
        ran.append(signing)
        return 0

    async def login(**allowed: Any) -> None:
        sandbox = Sandbox(read=(str(Path(__file__).parents[3]),), **allowed)
        words = command(tmp_path, 0)
        async with connect(words, dialect="v1", cwd=str(tmp_path), sandbox=sandbox, terminal_login=runner) as remote:
            await remote.authenticate("device")

    with pytest.raises(
        ProtocolError, match="sets EXIT, WHO for its login, which runs outside of the sandbox"
    ) as caught:
        await login()
    assert caught.value.kind == Kind.PERMISSION_DENIED
    assert ran == []
    await login(env=("EXIT", "WHO"))
    assert ran[0].env["WHO"] == "Ada"


async def test_an_exit_code_other_than_0_is_a_failure_and_the_agent_stays_as_it_is(tmp_path: Path) -> None:
    options = {"dialect": "v1", "cwd": str(tmp_path), "env": {"BASE": "x"}, "terminal_login": run_in_terminal}
    async with connect(command(tmp_path, 3), **options) as remote:  # type: ignore[arg-type]
        before = remote.connection
        with pytest.raises(ProtocolError, match="exit code 3") as caught:
            await remote.authenticate("device")
        assert caught.value.kind == Kind.AUTH_REQUIRED
        assert remote.connection is before
        assert before.failure is None


@pytest.mark.parametrize(
    ("options", "why"), [({}, "needs a terminal"), ({"terminal_login": lambda _: 0}, "not started by a command")]
)
async def test_without_terminal_login_nothing_is_announced_and_nothing_is_sent(options: Any, why: str) -> None:
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)
    method = {"id": "device", "name": "Device", "type": "terminal", "args": ["--login"]}

    async def script() -> None:
        asked = await peer.expect(method="initialize")
        assert "auth" not in asked["params"]["clientCapabilities"]
        result = {"protocolVersion": 1, "authMethods": [method]}  # all the same
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        await peer.expect(method="logout")

    playing = asyncio.create_task(script())
    async with connect(ours, capabilities=None, **options) as remote:
        with pytest.raises(ProtocolError, match=why) as caught:
            await remote.authenticate("device")
        assert caught.value.kind == Kind.CAPABILITY_UNSUPPORTED
        remote.notify("logout", {})  # the next message that it gets
        await playing


async def test_terminal_login_is_announced_if_there_is_a_runner(tmp_path: Path) -> None:
    teller = tmp_path / "teller.py"
    teller.write_text(
        "from dragoman import Agent, Turn\n"
        "agent = Agent('teller', version='1')\n"
        "@agent.prompt\n"
        "async def answer(turn: Turn) -> None:\n"
        "    await turn.say(str(turn.session.connection.offers('client.auth.terminal')))\n"
        "agent.run()\n",
        encoding="utf-8",
    )
    for runner, received in ((None, "False"), (run_in_terminal, "True")):
        async with connect([sys.executable, str(teller)], cwd=str(tmp_path), terminal_login=runner) as remote:
            assert await (await remote.open_session(str(tmp_path))).ask("?") == received


async def test_other_auth_methods_are_sent_to_the_agent() -> None:
    agent = Agent("guarded", version="1", auth_methods=[AuthMethod(id="browser", name="Browser")])
    asked = asyncio.Event()

    @agent.prompt
    async def answer(turn: Turn) -> None:
        assert turn.prompt == [TextContent(text="hi")]
        asked.set()

    async with connect_in_memory(agent) as remote:
        await remote.authenticate("browser")
        await (await remote.open_session()).ask("hi")
        assert asked.is_set()
