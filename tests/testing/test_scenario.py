"""Scenarios: they read like the conversation they hold, over memory and over pipes, and show where it went astray."""

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
    Departure,
    Junk,
    ScriptedAgent,
    answer,
    answered,
    any_number,
    ask,
    asked,
    eventually,
    faulty,
    leave,
    left,
    like,
    memory_pair,
    named,
    one_of,
    refuse,
    refused,
    rehearse,
    run_client,
    say,
    scripted_client,
    stand_in,
    tell,
    told,
    unordered,
    updated,
    where,
)
from dragoman.testing import stand_ins as stages
from dragoman.testing.scenario import Step
from dragoman.testing.stand_ins import Target, filled_in

ROOT = Path(__file__).parents[2]

GREETING: list[Step] = [
    ask("initialize", protocolVersion=1, clientCapabilities={"fs": {"readTextFile": True}}),
    answered(protocolVersion=1, agentInfo={"name": like("^(keeper|careful)$")}),
    ask("session/new", cwd="/w", mcpServers=[]),
    answered(sessionId=named("session")),
]


def prompt(text: str) -> Step:
    return ask("session/prompt", sessionId=named("session"), prompt=[{"type": "text", "text": text}])


careful = Agent("careful")


@careful.prompt
async def careful_answer(turn: Turn) -> None:
    """Reads a file, asks for leave, says what it read."""
    async with turn.tool("Read it", kind="read") as call:
        text = await turn.files.read(f"{turn.session.cwd}/{turn.text}")
        if await call.ask_permission():
            await turn.say(text)


READING: list[Step] = [
    *GREETING,
    prompt("plan.md"),
    updated("tool_call", title="Read it", toolCallId=named("call")),
    any_number(updated("tool_call_update")),
    asked("fs/read_text_file", path="/w/plan.md", sessionId=named("session")),
    answer(content="be brief"),
    any_number(updated("tool_call_update")),
    asked("session/request_permission", toolCall={"toolCallId": named("call")}, options=where(bool, "some options")),
    answer(outcome={"outcome": "selected", "optionId": "allow_once"}),
    eventually(updated("agent_message_chunk", content={"text": "be brief"})),
    any_number(told("session/update")),
    answered({"stopReason": one_of("end_turn")}, to="session/prompt"),
]


def test_an_agent_is_asked_questions_in_both_directions() -> None:
    names = asyncio.run(rehearse(careful, READING))
    assert set(names) == {"session", "call"}


async def test_the_same_scenario_is_held_with_a_process(tmp_path: Path) -> None:
    scenario: list[Step] = [
        ask("initialize", protocolVersion=1, clientCapabilities={}),
        answered(agentInfo={"name": "parrot"}),
        ask("session/new", cwd=str(tmp_path), mcpServers=[]),
        answered(sessionId=named("session")),
        prompt("hello"),
        eventually(updated("agent_message_chunk", content=ANYTHING)),
        any_number(),
        answered(stopReason="end_turn"),
        leave(),
    ]
    await rehearse([sys.executable, str(ROOT / "examples" / "parrot.py")], scenario, cwd=tmp_path)


def departure(target: Target, scenario: list[Step], **options: Any) -> str:
    with pytest.raises(Departure) as caught:
        asyncio.run(rehearse(target, scenario, **options))
    return str(caught.value)


def test_a_failure_shows_the_step_what_was_expected_what_was_heard_and_the_whole_exchange() -> None:
    text = departure(careful, [*GREETING[:-1], answered(sessionId="mine")])
    assert text.startswith("the agent deviated from the scenario at step 4 of 4\n")
    assert "expected  answered {'sessionId': 'mine'}" in text
    assert 'received  answered session/new {"sessionId":' in text
    assert "because   sessionId: expected 'mine', received '" in text
    exchange = text[text.index("the exchange") :]
    assert exchange.count("  -> ") == 2
    assert exchange.count("  <- ") == 2
    assert '-> {"jsonrpc":"2.0","id":2,"method":"session/new"' in exchange


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (updated("plan"), "update: sessionUpdate: expected 'plan', received 'tool_call'"),
        (asked("session/update"), "expected asked, received told"),
        (told("session/other"), "expected session/other, received session/update"),
        (answered(), "expected answered, received told"),
        (updated("tool_call", nothing=1), "update: nothing is missing"),
        (updated("tool_call", title=like("^Write")), "expected a string like ^Write, received 'Read it'"),
        (unordered(updated("plan"), answered()), "; "),
    ],
)
def test_what_does_not_fit_is_told_in_words(step: Step, why: str) -> None:
    assert why in departure(careful, [*GREETING, prompt("x"), step])


def test_an_answer_to_another_question_is_not_taken_for_this_one() -> None:
    text = departure(
        careful, [*GREETING, prompt("x"), eventually(asked("fs/read_text_file")), ask("nonsense"), answered()]
    )
    assert "refused nonsense" in text
    scenario = [*GREETING, ask("nonsense"), prompt("x"), eventually(refused(-32601, to="nonsense"))]
    asyncio.run(rehearse(careful, scenario))


async def test_steps_of_a_group_come_in_any_order() -> None:
    await rehearse(
        careful,
        [
            *GREETING,
            ask("session/list"),
            ask("nonsense"),
            unordered(refused(to="nonsense"), answered(to="session/list", sessions=ANYTHING)),
        ],
    )


async def test_what_is_ignored_may_come_at_any_time() -> None:
    silent = [step for step in READING if not str(step).startswith("told session/update")]
    await rehearse(careful, [each for each in silent if "Tolerated" not in repr(each)], ignore=[told("session/update")])


def test_a_value_that_goes_by_a_name_is_the_same_from_then_on() -> None:
    text = departure(
        careful, [*GREETING, ask("session/new", cwd="/w", mcpServers=[]), answered(sessionId=named("session"))]
    )
    assert "(session), received" in text


def test_a_name_nobody_has_heard_is_a_fault_of_the_test() -> None:
    with pytest.raises(ValueError, match="expect named"):
        asyncio.run(rehearse(careful, [ask("session/prompt", sessionId=named("session"))]))


def test_an_answer_without_a_question_is_a_fault_of_the_test() -> None:
    with pytest.raises(ValueError, match="no request fs/read_text_file is open"):
        asyncio.run(rehearse(careful, [*GREETING, answer(to="fs/read_text_file")]))


def test_params_are_given_whole_or_member_by_member() -> None:
    with pytest.raises(TypeError, match="not both"):
        ask("session/new", {"cwd": "/"}, mcpServers=[])


def test_an_agent_that_says_nothing_is_told_by_its_silence() -> None:
    text = departure(careful, [*GREETING, told("anything")], timeout=0.05)
    assert "received  nothing for 0.05 seconds" in text


def test_an_agent_that_prints_to_its_output_is_told_so() -> None:
    command = [sys.executable, "-c", "print('Loading model...'); input()"]
    text = departure(command, [ask("initialize"), answered()])
    assert "a line that is not a message: b'Loading model...'" in text
    assert "standard output" in text


def test_what_an_agent_prints_cannot_steer_the_terminal() -> None:
    command = [sys.executable, "-c", r"print('{\x1b[2J\u202e'); input()"]
    text = departure(command, [ask("initialize"), answered()])
    assert "\x1b" not in text
    assert "<- {\\x1b[2J\\u202e" in text


def test_an_agent_that_goes_is_told_with_its_last_words() -> None:
    command = [sys.executable, "-c", "import sys; input(); sys.exit('no API key')"]
    text = departure(command, [ask("initialize"), answered()])
    assert "the end of the connection:" in text
    assert "no API key" in text


async def test_an_agent_may_be_expected_to_go() -> None:
    await rehearse([sys.executable, "-c", "input()"], [ask("initialize"), left()])


def test_frames_of_any_kind_can_be_said() -> None:
    scenario: list[Step] = [
        say(b"{not json"),
        refused(-32700),
        say({"jsonrpc": "2.0", "id": 9, "method": 5}),
        refused(-32600),
    ]
    text = departure(careful, scenario)  # nobody asked anything: such an answer is answered to nothing
    assert "no request of ours is open" in text
    assert '"code":-32700' in text


def test_a_scenario_is_played_in_parts_by_one_client() -> None:
    async def scene() -> dict[str, Any]:
        async with scripted_client(careful) as client:
            await client.follow(GREETING[:2])
            return await client.follow(GREETING[2:])

    assert "session" in asyncio.run(scene())


# --- clients under test ---------------------------------------------------------------------------------------------

ANSWERING: list[Step] = [
    asked("initialize", protocolVersion=1),
    answer(protocolVersion=1, agentCapabilities={}),
    asked("session/new"),
    answer(sessionId="s1"),
    asked("session/prompt", sessionId="s1", prompt=[{"type": "text", "text": named("question")}]),
    tell(
        "session/update",
        sessionId="s1",
        update={"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": named("question")}},
    ),
    answer(stopReason="end_turn"),
]


def test_a_client_in_this_process_meets_the_scenario() -> None:
    async def scene() -> str:
        async with stand_in(ANSWERING) as agent, connect(agent.transport) as remote:
            return await (await remote.open_session(cwd="/")).ask("who is there?")

    assert asyncio.run(scene()) == "who is there?"


def test_a_client_that_starts_its_agent_meets_the_scenario() -> None:
    async def scene() -> tuple[int, str, str]:
        async with stand_in(ANSWERING) as agent:
            words = [sys.executable, "-m", "dragoman", "run", "who is there?", "--", "{agent}"]
            return await run_client(words, agent)

    assert asyncio.run(scene()) == (0, "who is there?\n", "")


def test_a_client_that_departs_is_told_in_the_test_not_in_its_process() -> None:
    async def scene() -> None:
        async with stand_in([*ANSWERING[:2], asked("session/list")]) as agent:
            await run_client([sys.executable, "-m", "dragoman", "run", "hi", "--", "{agent}"], agent)

    with pytest.raises(Departure, match="the client deviated from the scenario at step 3 of 3") as caught:
        asyncio.run(scene())
    assert "expected session/list, received session/new" in str(caught.value)


def test_the_departure_is_told_though_the_client_failed_of_it() -> None:
    async def scene() -> None:
        async with stand_in([asked("initialize"), refuse(-32603, "not today"), asked("never")], timeout=5) as agent:
            async with connect(agent.transport):
                pass

    with pytest.raises(Exception, match="not today"):
        asyncio.run(scene())


def test_a_client_that_says_more_than_the_scenario_is_told() -> None:
    async def scene() -> None:
        async with stand_in(ANSWERING[:4]) as agent, connect(agent.transport) as remote:
            session = await remote.open_session(cwd="/")
            session.cancel()
            remote.notify("_more/words", {})

    with pytest.raises(Departure, match="nothing more"):
        asyncio.run(scene())


def test_a_client_that_never_comes_is_told() -> None:
    async def scene() -> None:
        async with stand_in(ANSWERING, timeout=0.05) as agent:
            assert agent.command

    with pytest.raises(Departure, match="did not finish the scenario"):
        asyncio.run(scene())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("echo oh no >&2; exit 3", "the client exited with status 3 and never started its agent\nits stderr: oh no"),
        ("kill -9 $$", "the client was killed by signal 9 and never started its agent\nit printed nothing"),
    ],
)
def test_a_client_that_goes_without_starting_its_agent_is_told_at_once(
    line: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with stand_in(ANSWERING) as agent:
            await run_client(["sh", "-c", line], agent)

    monkeypatch.setattr(stages, "GRACE", 0.01)
    with pytest.raises(Departure) as raised:
        asyncio.run(asyncio.wait_for(scene(), 20))
    assert str(raised.value) == words


def test_a_client_that_is_not_there_is_told() -> None:
    async def scene() -> None:
        async with stand_in(ANSWERING) as agent:
            await run_client(["no-such-client-anywhere"], agent)

    with pytest.raises(
        AssertionError, match="could not be started: No such file or directory: no-such-client-anywhere"
    ):
        asyncio.run(scene())


def test_a_client_that_never_ends_is_ended() -> None:
    async def scene() -> None:
        async with stand_in([], timeout=0.3) as agent:
            await run_client([sys.executable, "-c", "import time; time.sleep(60)"], agent)

    with pytest.raises(AssertionError, match="did not exit within"):
        asyncio.run(scene())


def test_nothing_is_left_of_a_stand_in() -> None:
    async def scene() -> str:
        async with stand_in([]) as agent:
            door = agent.command[-1]
            agent.transport  # noqa: B018  (its being asked for is the visit)
            await agent.transport.close()
        return door

    assert not os.path.exists(os.path.dirname(asyncio.run(scene())))


def test_the_agents_command_goes_where_the_client_wants_it() -> None:
    agent = ["python", "a b.py"]
    assert filled_in(["x", "--", "{agent}"], agent) == ["x", "--", "python", "a b.py"]
    assert filled_in(["x", "--agent={agent}", "y"], agent) == ["x", "--agent=python 'a b.py'", "y"]
    assert filled_in(["x"], agent) == ["x", "python", "a b.py"]


def test_a_scenario_and_faults_go_together() -> None:
    async def scene() -> str:
        noisy = stand_in(ANSWERING, wrap=lambda transport: faulty(transport, sending=[Junk()]))
        async with noisy as agent, connect(agent.transport) as remote:
            return await (await remote.open_session(cwd="/")).ask("through the noise")

    assert asyncio.run(scene()) == "through the noise"


async def test_a_scripted_peer_can_be_led_frame_by_frame() -> None:

    ours, theirs = memory_pair()
    agent = ScriptedAgent(ours)
    theirs.send(b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":1}}')
    request = await agent.expect(method="initialize", params={"protocolVersion": 1})
    agent.send({"jsonrpc": "2.0", "id": request["id"], "result": {}})
    assert await theirs.receive() == [b'{"jsonrpc":"2.0","id":7,"result":{}}']
    assert [line[:2] for line in agent.exchange] == ["<-", "->"]
