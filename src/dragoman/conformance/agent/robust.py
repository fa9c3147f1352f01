"""An agent under hostile input."""

from __future__ import annotations

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import CANCELLED, AgentUnderTest
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
async def second_answers_are_ignored(agent: AgentUnderTest) -> None:
    """A permission request answered twice does not end the connection."""
    turn, question = await agent.wait_question("ask")
    agent.answer_permission(question, CANCELLED)
    agent.answer_permission(question, CANCELLED)
    await agent.wait_turn(turn)
    await agent.require_alive("a permission request that was answered twice")


@must("agent.robust.03", "errors.md#unknown-methods")
async def long_names_are_refused(agent: AgentUnderTest) -> None:
    """A method name of a hundred thousand characters is refused like any unknown one."""
    await agent.require_refused("no/" + "x" * LONG, {}, "a method with a very long name")


@must("agent.robust.04", "prompt-turns.md#prompt")
async def control_characters_are_text(agent: AgentUnderTest) -> None:
    """A prompt with control characters is answered."""
    turn = await agent.try_prompt("Say hello. \x00\x07\x1b[31m\x7f\u2028")
    agent.require(turn.answer, "a prompt with control characters was not answered")


@must("agent.robust.05", "sessions.md#unknown-session")
async def empty_ids_are_refused(agent: AgentUnderTest) -> None:
    """A prompt whose session id is empty is refused."""
    await agent.require_session_refused("", "a prompt in the session whose id is empty")


@must("agent.robust.06", "prompt-turns.md#cancel")
async def cancels_may_flood(agent: AgentUnderTest) -> None:
    """A flood of cancels does not end the connection."""
    turn = await agent.start_slow_turn()
    for _ in range(50):
        agent.cancel()
    await agent.wait_turn(turn)
    await agent.require_alive("a flood of cancels")


@must("agent.robust.08", "json-rpc.md#robust-reading")
async def doubled_members_are_survived(agent: AgentUnderTest) -> None:
    """A member that occurs twice in a message does not end the connection."""
    line = b'{"jsonrpc":"2.0","id":921,"id":922,"method":"no/such_method","method":"no/such_method"}'
    await agent.require_survival(line, "a message with members that occur twice")


@must("agent.robust.09", "json-rpc.md#robust-reading")
async def large_numbers_are_survived(agent: AgentUnderTest) -> None:
    """Numbers too large for any type do not end the connection."""
    number = b"9" * 1000
    line = b'{"jsonrpc":"2.0","method":"no/such_notification","params":{"a":' + number + b',"b":1e999}}'
    await agent.require_survival(line, "numbers too large for any type")


@must("agent.robust.10", "errors.md#wrong-params")
async def invalid_notifications_are_ignored(agent: AgentUnderTest) -> None:
    """Notifications with invalid params are ignored."""
    await agent.open_session()
    agent.skip_unless(agent.dialect != "crow", "crow cancels by request")
    agent.notify("session/cancel", {hello.SESSION[agent.dialect]: {"not": "a session"}})
    found = [frame for frame in await agent.stray_replies() if "result" in frame.message]
    agent.require_none(found, "a notification that makes no sense was answered with a result")
    await agent.require_alive("a notification that makes no sense")


@must("agent.robust.11", "sessions.md#many-at-once")
async def sessions_come_by_the_dozen(agent: AgentUnderTest) -> None:
    """A dozen sessions can be opened at once."""
    # Wait as long as a start may take: some agents open sessions one after the other.
    await agent.initialize()
    waiting = [agent.call("session/new", agent.new_session_params(f"session-{number}")) for number in range(DOZEN)]
    while waiting:
        frame = await agent.wait_for(
            lambda frame: frame.is_reply and frame.message.get("id") in waiting, agent.timeouts.start
        )
        agent.require_result(frame, "one of a dozen sessions opened at once")
        assert frame is not None
        waiting.remove(frame.message["id"])


@must("agent.robust.12", "errors.md#unknown-methods")
async def methods_are_strings(agent: AgentUnderTest) -> None:
    """A request whose method is not a string does not end the connection."""
    await agent.require_survival(b'{"jsonrpc":"2.0","id":923,"method":5,"params":{}}', "a method that is a number")
