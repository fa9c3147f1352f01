"""Scenarios: in memory and over pipes, for agents and clients; a failure shows where the peer deviated."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn, connect
from dragoman.testing import (
    ANYTHING,
    Junk,
    ScenarioFailed,
    ScriptedAgent,
    any_number,
    disconnect,
    eventually,
    expect_disconnect,
    expect_error,
    expect_notification,
    expect_request,
    expect_result,
    expect_update,
    fake_agent,
    fake_agents,
    faulty,
    memory_pair,
    one_of,
    regex,
    run_client,
    run_scenario,
    scripted_client,
    send_error,
    send_frame,
    send_notification,
    send_request,
    send_result,
    unordered,
    variable,
    where,
)
from dragoman.testing.connections import Target
from dragoman.testing.fake_agents import client_command
from dragoman.testing.scenario import Step

ROOT = Path(__file__).parents[2]

GREETING: list[Step] = [
    send_request("initialize", protocolVersion=1, clientCapabilities={"fs": {"readTextFile": True}}),
    expect_result(protocolVersion=1, agentInfo={"name": regex("^(notes|careful)$")}),
    send_request("session/new", cwd="/w", mcpServers=[]),
    expect_result(sessionId=variable("session")),
]


def prompt(text: str) -> Step:
    return send_request("session/prompt", sessionId=variable("session"), prompt=[{"type": "text", "text": text}])


careful = Agent("careful")


@careful.prompt
async def careful_answer(turn: Turn) -> None:
    """Reads a file, asks for permission, sends what it read."""
    async with turn.tool("Read it", kind="read") as call:
        text = await turn.files.read(f"{turn.session.cwd}/{turn.text}")
        if await call.ask_permission():
            await turn.say(text)


READING: list[Step] = [
    *GREETING,
    prompt("plan.md"),
    expect_update("tool_call", title="Read it", toolCallId=variable("call")),
    any_number(expect_update("tool_call_update")),
    expect_request("fs/read_text_file", path="/w/plan.md", sessionId=variable("session")),
    send_result(content="be brief"),
    any_number(expect_update("tool_call_update")),
    expect_request(
        "session/request_permission", toolCall={"toolCallId": variable("call")}, options=where(bool, "some options")
    ),
    send_result(outcome={"outcome": "selected", "optionId": "allow_once"}),
    eventually(expect_update("agent_message_chunk", content={"text": "be brief"})),
    any_number(expect_notification("session/update")),
    expect_result({"stopReason": one_of("end_turn")}, to="session/prompt"),
]


def test_a_scenario_sends_and_expects_requests() -> None:
    names = asyncio.run(run_scenario(careful, READING))
    assert set(names) == {"session", "call"}


async def test_a_scenario_runs_with_an_agent_process(tmp_path: Path) -> None:
    scenario: list[Step] = [
        send_request("initialize", protocolVersion=1, clientCapabilities={}),
        expect_result(agentInfo={"name": "echo"}),
        send_request("session/new", cwd=str(tmp_path), mcpServers=[]),
        expect_result(sessionId=variable("session")),
        prompt("hello"),
        eventually(expect_update("agent_message_chunk", content=ANYTHING)),
        any_number(),
        expect_result(stopReason="end_turn"),
        disconnect(),
    ]
    await run_scenario([sys.executable, str(ROOT / "examples" / "echo.py")], scenario, cwd=tmp_path)


def failure(target: Target, scenario: list[Step], **options: Any) -> str:
    with pytest.raises(ScenarioFailed) as caught:
        asyncio.run(run_scenario(target, scenario, **options))
    return str(caught.value)


def test_a_failure_shows_the_step_the_expected_and_received_message_and_the_exchange() -> None:
    text = failure(careful, [*GREETING[:-1], expect_result(sessionId="mine")])
    assert text.startswith("the agent deviated from the scenario at step 4 of 4\n")
    assert "expected  result {'sessionId': 'mine'}" in text
    assert 'received  result session/new {"sessionId":' in text
    assert "because   sessionId: expected 'mine', received '" in text
    exchange = text[text.index("the exchange") :]
    assert exchange.count("  -> ") == 2
    assert exchange.count("  <- ") == 2
    assert '-> {"jsonrpc":"2.0","id":2,"method":"session/new"' in exchange


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (expect_update("plan"), "update: sessionUpdate: expected 'plan', received 'tool_call'"),
        (expect_request("session/update"), "expected request, received notification"),
        (expect_notification("session/other"), "expected session/other, received session/update"),
        (expect_result(), "expected result, received notification"),
        (expect_update("tool_call", nothing=1), "update: nothing is missing"),
        (expect_update("tool_call", title=regex("^Write")), "expected a string like ^Write, received 'Read it'"),
        (unordered(expect_update("plan"), expect_result()), "; "),
    ],
)
def test_a_failure_says_why_a_message_does_not_match(step: Step, why: str) -> None:
    assert why in failure(careful, [*GREETING, prompt("x"), step])


def test_a_result_for_another_request_does_not_match() -> None:
    text = failure(
        careful,
        [
            *GREETING,
            prompt("x"),
            eventually(expect_request("fs/read_text_file")),
            send_request("nonsense"),
            expect_result(),
        ],
    )
    assert "error nonsense" in text
    scenario = [*GREETING, send_request("nonsense"), prompt("x"), eventually(expect_error(-32601, to="nonsense"))]
    asyncio.run(run_scenario(careful, scenario))


async def test_unordered_expectations_come_in_any_order() -> None:
    await run_scenario(
        careful,
        [
            *GREETING,
            send_request("session/list"),
            send_request("nonsense"),
            unordered(expect_error(to="nonsense"), expect_result(to="session/list", sessions=ANYTHING)),
        ],
    )


async def test_ignored_messages_may_come_at_any_time() -> None:
    silent = [step for step in READING if not str(step).startswith("notification session/update")]
    await run_scenario(
        careful,
        [each for each in silent if "AnyNumber" not in repr(each)],
        ignore=[expect_notification("session/update")],
    )


def test_a_variable_keeps_its_first_value() -> None:
    text = failure(
        careful,
        [*GREETING, send_request("session/new", cwd="/w", mcpServers=[]), expect_result(sessionId=variable("session"))],
    )
    assert "(session), received" in text


def test_sending_a_variable_without_a_value_is_an_error_of_the_test() -> None:
    with pytest.raises(ValueError, match="expect variable"):
        asyncio.run(run_scenario(careful, [send_request("session/prompt", sessionId=variable("session"))]))


def test_a_result_without_an_open_request_is_an_error_of_the_test() -> None:
    with pytest.raises(ValueError, match="no request fs/read_text_file is open"):
        asyncio.run(run_scenario(careful, [*GREETING, send_result(to="fs/read_text_file")]))


def test_params_are_one_value_or_members_but_not_both() -> None:
    with pytest.raises(TypeError, match="not both"):
        send_request("session/new", {"cwd": "/"}, mcpServers=[])


def test_an_agent_that_sends_nothing_is_reported() -> None:
    text = failure(careful, [*GREETING, expect_notification("anything")], timeout=0.05)
    assert "received  nothing for 0.05 seconds" in text


def test_an_agent_that_prints_to_stdout_is_reported() -> None:
    command = [sys.executable, "-c", "print('Loading model...'); input()"]
    text = failure(command, [send_request("initialize"), expect_result()])
    assert "a line that is not a message: b'Loading model...'" in text
    assert "standard output" in text


def test_control_characters_of_an_agent_are_escaped() -> None:
    command = [sys.executable, "-c", r"print('{\x1b[2J\u202e'); input()"]
    text = failure(command, [send_request("initialize"), expect_result()])
    assert "\x1b" not in text
    assert "<- {\\x1b[2J\\u202e" in text


def test_an_agent_that_exits_is_reported_with_its_stderr() -> None:
    command = [sys.executable, "-c", "import sys; input(); sys.exit('no API key')"]
    text = failure(command, [send_request("initialize"), expect_result()])
    assert "the end of the connection:" in text
    assert "no API key" in text


async def test_a_scenario_can_expect_a_disconnect() -> None:
    await run_scenario([sys.executable, "-c", "input()"], [send_request("initialize"), expect_disconnect()])


def test_any_bytes_can_be_sent_as_a_frame() -> None:
    scenario: list[Step] = [
        send_frame(b"{not json"),
        expect_error(-32700),
        send_frame({"jsonrpc": "2.0", "id": 9, "method": 5}),
        expect_error(-32600),
    ]
    text = failure(careful, scenario)  # there is no request that these errors answer
    assert "no request of ours is open" in text
    assert '"code":-32700' in text


def test_a_scenario_is_played_in_parts_by_one_client() -> None:
    async def run() -> dict[str, Any]:
        async with scripted_client(careful) as client:
            await client.run_scenario(GREETING[:2])
            return await client.run_scenario(GREETING[2:])

    assert "session" in asyncio.run(run())


# --- clients under test ---------------------------------------------------------------------------------------------

ANSWERING: list[Step] = [
    expect_request("initialize", protocolVersion=1),
    send_result(protocolVersion=1, agentCapabilities={}),
    expect_request("session/new"),
    send_result(sessionId="s1"),
    expect_request("session/prompt", sessionId="s1", prompt=[{"type": "text", "text": variable("question")}]),
    send_notification(
        "session/update",
        sessionId="s1",
        update={"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": variable("question")}},
    ),
    send_result(stopReason="end_turn"),
]


def test_a_client_in_this_process_runs_against_a_fake_agent() -> None:
    async def run() -> str:
        async with fake_agent(ANSWERING) as agent, connect(agent.transport) as remote:
            return await (await remote.open_session(cwd="/")).ask("who is there?")

    assert asyncio.run(run()) == "who is there?"


def test_a_client_starts_a_fake_agent_by_its_command() -> None:
    async def run() -> tuple[int, str, str]:
        async with fake_agent(ANSWERING) as agent:
            words = [sys.executable, "-m", "dragoman", "run", "who is there?", "--", "{agent}"]
            return await run_client(words, agent)

    assert asyncio.run(run()) == (0, "who is there?\n", "")


def test_a_client_that_deviates_fails_in_the_test_and_not_in_its_process() -> None:
    async def run() -> None:
        async with fake_agent([*ANSWERING[:2], expect_request("session/list")]) as agent:
            await run_client([sys.executable, "-m", "dragoman", "run", "hi", "--", "{agent}"], agent)

    with pytest.raises(ScenarioFailed, match="the client deviated from the scenario at step 3 of 3") as caught:
        asyncio.run(run())
    assert "expected session/list, received session/new" in str(caught.value)


def test_an_error_of_the_client_is_raised_too() -> None:
    async def run() -> None:
        async with fake_agent(
            [expect_request("initialize"), send_error(-32603, "not today"), expect_request("never")], timeout=5
        ) as agent:
            async with connect(agent.transport):
                pass

    with pytest.raises(Exception, match="not today"):
        asyncio.run(run())


def test_a_client_that_sends_more_than_the_scenario_fails() -> None:
    async def run() -> None:
        async with fake_agent(ANSWERING[:4]) as agent, connect(agent.transport) as remote:
            session = await remote.open_session(cwd="/")
            session.cancel()
            remote.notify("_more/words", {})

    with pytest.raises(ScenarioFailed, match="nothing more"):
        asyncio.run(run())


def test_a_client_that_never_connects_fails() -> None:
    async def run() -> None:
        async with fake_agent(ANSWERING, timeout=0.05) as agent:
            assert agent.command

    with pytest.raises(ScenarioFailed, match="did not finish the scenario"):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("echo oh no >&2; exit 3", "the client exited with status 3 and never started its agent\nits stderr: oh no"),
        ("kill -9 $$", "the client was killed by signal 9 and never started its agent\nit printed nothing"),
    ],
)
def test_a_client_that_exits_without_starting_its_agent_fails_at_once(
    line: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with fake_agent(ANSWERING) as agent:
            await run_client(["sh", "-c", line], agent)

    monkeypatch.setattr(fake_agents, "CONNECT_GRACE", 0.01)
    with pytest.raises(ScenarioFailed) as raised:
        asyncio.run(asyncio.wait_for(run(), 20))
    assert str(raised.value) == words


def test_a_client_that_cannot_be_started_fails() -> None:
    async def run() -> None:
        async with fake_agent(ANSWERING) as agent:
            await run_client(["no-such-client-anywhere"], agent)

    with pytest.raises(
        AssertionError, match="could not be started: No such file or directory: no-such-client-anywhere"
    ):
        asyncio.run(run())


def test_a_client_that_never_exits_is_killed() -> None:
    async def run() -> None:
        async with fake_agent([], timeout=0.3) as agent:
            await run_client([sys.executable, "-c", "import time; time.sleep(60)"], agent)

    with pytest.raises(AssertionError, match="did not exit within"):
        asyncio.run(run())


def test_a_fake_agent_removes_its_socket() -> None:
    async def run() -> str:
        async with fake_agent([]) as agent:
            path = agent.command[-1]
            agent.transport  # noqa: B018  (reading it connects)
            await agent.transport.close()
        return path

    assert not os.path.exists(os.path.dirname(asyncio.run(run())))


def test_the_agents_command_replaces_its_placeholder() -> None:
    agent = ["python", "a b.py"]
    assert client_command(["x", "--", "{agent}"], agent) == ["x", "--", "python", "a b.py"]
    assert client_command(["x", "--agent={agent}", "y"], agent) == ["x", "--agent=python 'a b.py'", "y"]
    assert client_command(["x"], agent) == ["x", "python", "a b.py"]


def test_a_scenario_can_run_with_faults() -> None:
    async def run() -> str:
        noisy = fake_agent(ANSWERING, wrap=lambda transport: faulty(transport, sending=[Junk()]))
        async with noisy as agent, connect(agent.transport) as remote:
            return await (await remote.open_session(cwd="/")).ask("through the noise")

    assert asyncio.run(run()) == "through the noise"


async def test_a_scripted_peer_is_controlled_frame_by_frame() -> None:
    ours, theirs = memory_pair()
    agent = ScriptedAgent(ours)
    theirs.send(b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":1}}')
    request = await agent.expect(method="initialize", params={"protocolVersion": 1})
    agent.send({"jsonrpc": "2.0", "id": request["id"], "result": {}})
    assert await theirs.receive() == [b'{"jsonrpc":"2.0","id":7,"result":{}}']
    assert [line[:2] for line in agent.exchange] == ["<-", "->"]
