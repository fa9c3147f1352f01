"""An agent under hostile input."""

from __future__ import annotations

from dragoman.conformance.agent.cancel import start_slow_turn, wait_permission_request
from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.requirement import must

FLOOD = 500
LONG = 100_000
DOZEN = 12


@must("agent.robust.01", "peers.md#reports-size")
async def floods_are_survived(agent: AgentUnderTest) -> None:
    """A flood of notifications does not end the connection."""
    await agent.initialize()
    for number in range(FLOOD):
        agent.notify("_flood/notification", {"number": number})
    await agent.require_alive("a flood of notifications")


@must("agent.robust.02", "peers.md#late-permission-answers", "v1 banjo draft")
async def second_answers_are_passed_over(agent: AgentUnderTest) -> None:
    """A question answered twice does not end the connection."""
    turn, question = await wait_permission_request(agent)
    answer = {"outcome": {"outcome": "cancelled"}}
    agent.answer_permission(question, answer)
    agent.answer_permission(question, answer)
    await agent.wait_turn(turn)
    await agent.require_alive("a question that was answered twice")


@must("agent.robust.03", "errors.md#unknown-methods")
async def long_names_are_refused(agent: AgentUnderTest) -> None:
    """A method name of a hundred thousand characters is refused like another."""
    await agent.initialize()
    agent.require_error(await agent.request("no/" + "x" * LONG, {}), "a method with a very long name")


@must("agent.robust.04", "prompt-turns.md#prompt")
async def control_characters_are_text(agent: AgentUnderTest) -> None:
    """Control characters in a prompt do not keep it from being answered."""
    await agent.open_session()
    turn = await agent.wait_turn(agent.start_turn("Say hello. \x00\x07\x1b[31m\x7f\u2028"))
    agent.require(turn.answer, "a prompt with control characters was not answered")


@must("agent.robust.05", "sessions.md#unknown-session")
async def empty_ids_are_refused(agent: AgentUnderTest) -> None:
    """A prompt in the session whose id is empty is refused."""
    await agent.open_session()
    method, params = agent.to_wire("session/prompt", {"sessionId": "x", "prompt": [{"type": "text", "text": "hello"}]})
    frame = await agent.request(method, {**params, hello.SESSION[agent.dialect]: ""}, agent.timeouts.turn)
    agent.require_error(frame, "a prompt in the session whose id is empty")


@must("agent.robust.06", "prompt-turns.md#cancel")
async def cancels_may_flood(agent: AgentUnderTest) -> None:
    """A flood of cancels does not end the connection."""
    turn = await start_slow_turn(agent)
    for _ in range(50):
        agent.cancel()
    await agent.wait_turn(turn)
    await agent.require_alive("a flood of cancels")


async def _survives(agent: AgentUnderTest, line: bytes, what: str) -> None:
    await agent.initialize()
    agent.send(line)
    await agent.collect()
    await agent.require_alive(what)


@must("agent.robust.08", "json-rpc.md#robust-reading")
async def doubled_members_are_survived(agent: AgentUnderTest) -> None:
    """A member that stands twice in a message does not end the connection."""
    line = b'{"jsonrpc":"2.0","id":921,"id":922,"method":"no/such_method","method":"no/such_method"}'
    await _survives(agent, line, "a message with members that occur twice")


@must("agent.robust.09", "json-rpc.md#robust-reading")
async def large_numbers_are_survived(agent: AgentUnderTest) -> None:
    """Numbers too large for any type do not end the connection."""
    number = b"9" * 1000
    line = b'{"jsonrpc":"2.0","method":"no/such_notification","params":{"a":' + number + b',"b":1e999}}'
    await _survives(agent, line, "numbers too large for any type")


@must("agent.robust.10", "errors.md#wrong-params")
async def senseless_notifications_are_passed_over(agent: AgentUnderTest) -> None:
    """Notifications whose params make no sense are passed over."""
    await agent.open_session()
    if agent.dialect == "crow":
        agent.skip("crow cancels by request")
    agent.notify("session/cancel", {hello.SESSION[agent.dialect]: {"not": "a session"}})
    found = [frame for frame in agent.unrequested_replies(await agent.collect()) if "result" in frame.message]
    agent.require(not found, "a notification that makes no sense was answered with a result", *found)
    await agent.require_alive("a notification that makes no sense")


@must("agent.robust.11", "sessions.md#many-at-once")
async def sessions_come_by_the_dozen(agent: AgentUnderTest) -> None:
    """Sessions can be opened by the dozen."""
    # Wait as long as a start may take: some agents open sessions one after the other.
    await agent.initialize()
    waiting = [
        agent.call("session/new", hello.new_session(agent.dialect, agent.cwd, f"session-{number}"))
        for number in range(DOZEN)
    ]
    while waiting:
        frame = await agent.wait_for(
            lambda frame: frame.is_reply and frame.message.get("id") in waiting, agent.timeouts.start
        )
        agent.require_result(frame, "one of a dozen sessions opened at once")
        assert frame is not None
        waiting.remove(frame.message["id"])


@must("agent.robust.12", "errors.md#unknown-methods")
async def methods_are_texts(agent: AgentUnderTest) -> None:
    """A request whose method is no text does not end the connection."""
    await _survives(agent, b'{"jsonrpc":"2.0","id":923,"method":5,"params":{}}', "a method that is a number")
