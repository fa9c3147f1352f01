"""Probes of an agent under hostility."""

from __future__ import annotations

from dragoman.conformance.harness import hello
from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.probe import probe
from dragoman.conformance.probes.agent_cancel import asked, running

FLOOD = 500
LONG = 100_000
DOZEN = 12


@probe("agent.robust.01")
async def floods_are_survived(stage: AgentStage) -> None:
    """Notifications that nobody knows."""
    await stage.initialized()
    for number in range(FLOOD):
        stage.tell("_flood/notification", {"number": number})
    await stage.alive("a flood of notifications")


@probe("agent.robust.02")
async def second_answers_are_passed_over(stage: AgentStage) -> None:
    """The first counts."""
    turn, question = await asked(stage)
    answer = {"outcome": {"outcome": "cancelled"}}
    stage.answer_question(question, answer)
    stage.answer_question(question, answer)
    await stage.ended(turn)
    await stage.alive("a question that was answered twice")


@probe("agent.robust.03")
async def long_names_are_refused(stage: AgentStage) -> None:
    """No buffer is that long."""
    await stage.initialized()
    stage.refused(await stage.asked("no/" + "x" * LONG, {}), "a method with a very long name")


@probe("agent.robust.04")
async def control_characters_are_text(stage: AgentStage) -> None:
    """As a terminal writes them."""
    await stage.opened()
    turn = await stage.ended(stage.begin("Say hello. \x00\x07\x1b[31m\x7f\u2028"))
    stage.require(turn.answer, "a prompt with control characters was not answered")


@probe("agent.robust.05")
async def empty_ids_are_refused(stage: AgentStage) -> None:
    """Nobody has that session."""
    await stage.opened()
    method, params = stage.spelled("session/prompt", {"sessionId": "x", "prompt": [{"type": "text", "text": "hello"}]})
    heard = await stage.asked(method, {**params, hello.SESSION[stage.dialect]: ""}, stage.pace.turn)
    stage.refused(heard, "a prompt in the session whose id is empty")


@probe("agent.robust.06")
async def cancels_may_flood(stage: AgentStage) -> None:
    """Fifty of them; that a turn is answered once is another requirement."""
    turn = await running(stage)
    for _ in range(50):
        stage.cancel()
    await stage.ended(turn)
    await stage.alive("a flood of cancels")


async def _survives(stage: AgentStage, line: bytes, what: str) -> None:
    await stage.initialized()
    stage.send(line)
    await stage.silence()
    await stage.alive(what)


@probe("agent.robust.08")
async def doubled_members_are_survived(stage: AgentStage) -> None:
    """Readers differ in which of them they take."""
    line = b'{"jsonrpc":"2.0","id":921,"id":922,"method":"no/such_method","method":"no/such_method"}'
    await _survives(stage, line, "a message with members that stand twice")


@probe("agent.robust.09")
async def large_numbers_are_survived(stage: AgentStage) -> None:
    """A thousand digits, and an exponent to match."""
    number = b"9" * 1000
    line = b'{"jsonrpc":"2.0","method":"no/such_notification","params":{"a":' + number + b',"b":1e999}}'
    await _survives(stage, line, "numbers too large for any type")


@probe("agent.robust.10")
async def senseless_notifications_are_passed_over(stage: AgentStage) -> None:
    """A cancel of something that is no session."""
    await stage.opened()
    if stage.dialect == "crow":
        stage.skip("crow cancels by request")
    stage.tell("session/cancel", {hello.SESSION[stage.dialect]: {"not": "a session"}})
    found = [heard for heard in stage.unasked(await stage.silence()) if "result" in heard.message]
    stage.require(not found, "a notification that makes no sense was answered with a result", *found)
    await stage.alive("a notification that makes no sense")


@probe("agent.robust.11")
async def sessions_come_by_the_dozen(stage: AgentStage) -> None:
    """All at once; the next answer is waited for as long as a start may take, for some open one after the other."""
    await stage.initialized()
    waiting = [
        stage.call("session/new", hello.new_session(stage.dialect, stage.cwd, f"session-{number}"))
        for number in range(DOZEN)
    ]
    while waiting:
        heard = await stage.until(lambda heard: heard.is_reply and heard.message.get("id") in waiting, stage.pace.start)
        stage.granted(heard, "one of a dozen sessions opened at once")
        assert heard is not None
        waiting.remove(heard.message["id"])


@probe("agent.robust.12")
async def methods_are_texts(stage: AgentStage) -> None:
    """A number in its place."""
    await _survives(stage, b'{"jsonrpc":"2.0","id":923,"method":5,"params":{}}', "a method that is a number")
