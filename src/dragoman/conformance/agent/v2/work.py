"""Work of a v2 agent as probes see it: prompts with their receipts, states and the updates as they came."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dragoman.conformance.harness.agent import QUESTION, AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import Shape

FINAL = ("completed", "failed", "cancelled")


class Work(msgspec.Struct, eq=False):
    """One prompt: its id, the number of frames before it, its receipt, and the idle that ended its work."""

    id: Json
    session: str
    start: int
    receipt: ReceivedFrame | None = None
    idle: ReceivedFrame | None = None

    @property
    def message_id(self) -> Json:
        """The id of the user's message."""
        return self.receipt.result.get("messageId") if self.receipt is not None else None


def wire(frame: ReceivedFrame) -> dict[str, Json]:
    """Return an update as it came; empty for anything else."""
    found = frame.wire_params.get("update") if frame.method == "session/update" else None
    return found if isinstance(found, dict) else {}


def updates(agent: AgentUnderTest, *kinds: str, start: int = 0, session: str = "") -> list[ReceivedFrame]:
    """Return the updates of these kinds as they came, of one session or all."""
    return [
        frame
        for frame in agent.received[start:]
        if wire(frame).get("sessionUpdate") in kinds and session in ("", frame.wire_params.get("sessionId"))
    ]


def states(agent: AgentUnderTest, start: int = 0, session: str = "") -> list[ReceivedFrame]:
    """Return the states that were told."""
    return updates(agent, "state_update", start=start, session=session)


def state(frame: ReceivedFrame) -> str:
    """Return the state that a frame tells, or ""."""
    found = wire(frame)
    return str(found.get("state", "")) if found.get("sessionUpdate") == "state_update" else ""


def ends(agent: AgentUnderTest, work: Work) -> list[ReceivedFrame]:
    """Return the states that end work since a prompt: idle after another state, or with a stop reason."""
    found, is_busy = [], False
    for frame in states(agent, work.start, work.session):
        if state(frame) != "idle":
            is_busy = True
        elif is_busy or wire(frame).get("stopReason"):
            found.append(frame)
            is_busy = False
    return found


async def start_work(agent: AgentUnderTest, purpose: str, session: str = "") -> Work:
    """Send the prompt for this purpose, and do not wait."""
    if not agent.session:
        await agent.open_session()
    turn = agent.start_turn(purpose, session)
    return Work(id=turn.id, session=turn.session, start=turn.start)


async def wait_receipt(agent: AgentUnderTest, work: Work, seconds: float | None = None) -> ReceivedFrame | None:
    """Return the answer to a prompt, None when none comes in time."""
    work.receipt = next(iter(agent.replies(work.id)), None) or await agent.wait_reply(
        work.id, agent.timeouts.turn if seconds is None else seconds
    )
    return work.receipt


async def wait_end(agent: AgentUnderTest, work: Work, count: int = 1) -> Work:
    """Wait for the receipt and for the end of the work, if they come; `count` is the number of ends to wait for."""
    await wait_receipt(agent, work)
    if work.receipt is None or "error" in work.receipt.message:
        return work
    if len(ends(agent, work)) < count:
        await agent.wait_for(lambda _: len(ends(agent, work)) >= count, agent.timeouts.turn)
    found = ends(agent, work)
    work.idle = found[count - 1] if len(found) >= count else None
    return work


async def try_work(agent: AgentUnderTest, purpose: str, session: str = "") -> Work:
    """Run work for this purpose, ended or not."""
    return await wait_end(agent, await start_work(agent, purpose, session))


async def run_work(agent: AgentUnderTest, purpose: str, session: str = "") -> Work:
    """Run work for this purpose; end as inconclusive if it does not end."""
    work = await try_work(agent, purpose, session)
    agent.assume(work.idle, "the agent did not end the work in time", work.receipt)
    return work


async def start_slow_work(agent: AgentUnderTest, purpose: str = "slow", session: str = "") -> Work:
    """Start work that takes long; return it once its tool call runs."""
    work = await start_work(agent, purpose, session)
    agent.assume(await wait_receipt(agent, work), "the prompt was not answered")
    assert work.receipt is not None
    agent.assume("result" in work.receipt.message, "the prompt was refused", work.receipt)
    if not updates(agent, "tool_call_update", start=work.start):
        await wait_update(agent, "tool_call_update", "agent_message_chunk")
    await agent.collect()
    agent.assume(not ends(agent, work), "the work that should take long was over at once")
    return work


async def wait_update(
    agent: AgentUnderTest, *kinds: str, matches: Callable[[dict[str, Json]], bool] = lambda _: True
) -> ReceivedFrame | None:
    """Return the next update of these kinds that matches, None when none comes in time."""
    return await agent.wait_for(
        lambda frame: wire(frame).get("sessionUpdate") in kinds and matches(wire(frame)), agent.timeouts.turn
    )


async def wait_question(agent: AgentUnderTest, purpose: str) -> tuple[Work, ReceivedFrame]:
    """Start work that asks for permission; return it and the question, which stays open."""
    agent.hold(QUESTION)
    work = await start_work(agent, purpose)
    question = await agent.wait_method(QUESTION, agent.timeouts.turn)
    return work, agent.assume(question, "the agent did not ask for permission")


def require_each(agent: AgentUnderTest, found: list[ReceivedFrame], shape: Shape, what: str) -> None:
    """Require this shape of each of these updates as they came; end as inconclusive without any."""
    agent.assume(found, f"the agent sent no {what}")
    for frame in found:
        agent.require_shape(wire(frame), shape, frame, what)


def message_text(agent: AgentUnderTest, id: str, start: int = 0) -> str:
    """Return the text of a message of the agent, by its chunks and whole messages."""
    text = ""
    for frame in agent.received[start:]:
        update = wire(frame)
        if update.get("messageId") != id:
            continue
        content = update.get("content")
        if isinstance(content, dict):
            text += str(content.get("text", ""))
        elif isinstance(content, list):
            text = "".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return text


def open_calls(agent: AgentUnderTest, start: int = 0) -> dict[str, ReceivedFrame]:
    """Return the tool calls without a final status, by id, with the last frame of their status."""
    found: dict[str, tuple[str, ReceivedFrame]] = {}
    for frame in updates(agent, "tool_call_update", start=start):
        update = wire(frame)
        if isinstance(update.get("status"), str):
            found[str(update.get("toolCallId"))] = (update["status"], frame)
    return {id: frame for id, (status, frame) in found.items() if status not in FINAL}
