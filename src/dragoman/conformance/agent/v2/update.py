"""Updates of a v2 agent: their frame, messages, plans, information."""

from __future__ import annotations

from dragoman.conformance.agent.v2.work import message_text, require_each, run_work, updates, wire
from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.json_shape import Shape, content_block, natural, non_empty, one_of
from dragoman.conformance.requirement import may, must, should

KINDS = frozenset(
    {
        "user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "user_message", "agent_message",
        "agent_thought", "state_update", "tool_call_update", "tool_call_content_chunk", "terminal_update",
        "terminal_output_chunk", "plan_update", "plan_removed", "available_commands_update", "config_option_update",
        "session_info_update", "usage_update", "notice", "compaction_update", "compaction_summary_chunk",
        "subagent_update", "session_message", "session_message_chunk",
    }
)  # fmt: skip
CHUNKS = ("agent_message_chunk", "agent_thought_chunk")
PLAN: Shape = {
    "plan": {
        "type": non_empty,
        "planId": non_empty,
        "entries?": [
            {
                "content": str,
                "priority": one_of("high", "medium", "low"),
                "status": one_of("pending", "in_progress", "completed", "cancelled"),
            }
        ],
    }
}


@must("agent.v2update.01", "v2.md#updates")
async def updates_name_their_session(agent: AgentUnderTest) -> None:
    """An update has the id of its session."""
    await run_work(agent, "tour")
    for frame in agent.calls("session/update"):
        agent.require(frame.wire_params.get("sessionId"), "an update has no session", frame)


@must("agent.v2update.02", "v2.md#updates")
async def kinds_are_known(agent: AgentUnderTest) -> None:
    """The kind of an update is one of the protocol's, or begins with an underscore; those of v1 are gone."""
    await run_work(agent, "tour")
    for frame in agent.calls("session/update"):
        kind = wire(frame).get("sessionUpdate")
        is_known = kind in KINDS or (isinstance(kind, str) and kind.startswith("_"))
        agent.require(is_known, f"the kind of update {kind!r} is not one of version 2", frame)


@must("agent.v2update.03", "v2.md#message-chunks")
async def chunks_have_a_message(agent: AgentUnderTest) -> None:
    """A piece of the agent's message has the id of its message."""
    await run_work(agent, "plain")
    require_each(agent, updates(agent, "agent_message_chunk"), {"messageId": non_empty}, "agent_message_chunk")


@must("agent.v2update.04", "v2.md#message-chunks")
async def chunks_have_content(agent: AgentUnderTest) -> None:
    """A piece of the agent's message has a content block."""
    await run_work(agent, "plain")
    require_each(agent, updates(agent, "agent_message_chunk"), {"content": content_block}, "agent_message_chunk")


@must("agent.v2update.05", "v2.md#message-chunks")
async def thoughts_are_chunks(agent: AgentUnderTest) -> None:
    """A piece of a thought has the id of its thought and a content block."""
    await run_work(agent, "think")
    shape = {"messageId": non_empty, "content": content_block}
    require_each(agent, updates(agent, "agent_thought_chunk"), shape, "agent_thought_chunk")


@must("agent.v2update.06", "v2.md#message-chunks")
async def one_message_has_one_id(agent: AgentUnderTest) -> None:
    """The pieces of one streamed message have one id."""
    await run_work(agent, "stream")
    found = agent.assume(updates(agent, "agent_message_chunk"), "the agent sent no pieces")
    ids = {wire(frame).get("messageId") for frame in found}
    agent.require(len(ids) < len(found) or len(found) == 1, "each piece of a message has another id", *found[:2])


@must("agent.v2update.07", "v2.md#message-chunks")
async def another_turn_is_another_message(agent: AgentUnderTest) -> None:
    """Messages of two turns have different ids."""
    first = await run_work(agent, "plain")
    second = await run_work(agent, "plain")
    before = {wire(f).get("messageId") for f in updates(agent, *CHUNKS) if agent.received.index(f) < second.start}
    after = {wire(f).get("messageId") for f in updates(agent, *CHUNKS, start=second.start)}
    agent.assume(before and after, "the agent said nothing")
    agent.require(not before & after, "messages of two turns have the same id", first.receipt, second.receipt)


@may("agent.v2update.08", "v2.md#whole-messages")
async def whole_messages_have_content(agent: AgentUnderTest) -> None:
    """A whole message has an id; its content is a list, null or absent."""
    await agent.open_session()
    agent.skip_unless(agent.has_prompt("rewrite"), "no prompt makes this agent replace a message")
    await run_work(agent, "rewrite")
    found = agent.skip_unless(updates(agent, "agent_message"), "the agent sends no whole messages")
    require_each(agent, found, {"messageId": non_empty, "content?": [content_block]}, "agent_message")


@may("agent.v2update.09", "v2.md#whole-messages")
async def a_replaced_message_keeps_its_id(agent: AgentUnderTest) -> None:
    """A message that is replaced keeps its id, and has only its new text."""
    await agent.open_session()
    agent.skip_unless(agent.has_prompt("rewrite"), "no prompt makes this agent replace a message")
    work = await run_work(agent, "rewrite")
    found = agent.skip_unless(updates(agent, "agent_message", start=work.start), "the agent replaces no message")
    id = str(wire(found[-1]).get("messageId"))
    said = {wire(frame).get("messageId") for frame in updates(agent, "agent_message_chunk", start=work.start)}
    agent.require(id in said, "a message was replaced that nobody has seen", found[-1])
    agent.require(message_text(agent, id, work.start), "a replaced message has no text", found[-1])


@must("agent.v2update.10", "v2.md#plans")
async def plans_have_an_id(agent: AgentUnderTest) -> None:
    """A plan has a type and an id; its entries have content, priority and status."""
    await run_work(agent, "plan")
    require_each(agent, updates(agent, "plan_update"), PLAN, "plan_update")


@must("agent.v2update.11", "v2.md#session-information")
async def usage_has_numbers(agent: AgentUnderTest) -> None:
    """The usage of the context has the used and the whole size."""
    await run_work(agent, "usage")
    require_each(agent, updates(agent, "usage_update"), {"used": natural, "size": natural}, "usage_update")


@must("agent.v2update.12", "v2.md#session-information")
async def titles_are_text(agent: AgentUnderTest) -> None:
    """The title of a session is a text or null."""
    await run_work(agent, "title")
    require_each(agent, updates(agent, "session_info_update"), {"title?": str}, "session_info_update")


@must("agent.v2update.13", "v2.md#session-information")
async def notices_have_a_title(agent: AgentUnderTest) -> None:
    """A notice has a severity and a title that is not empty."""
    await run_work(agent, "notice")
    shape = {"severity": one_of("info", "warning", "error"), "title": non_empty, "description?": str}
    require_each(agent, updates(agent, "notice"), shape, "notice")


@must("agent.v2update.14", "v2.md#session-information")
async def compactions_have_a_status(agent: AgentUnderTest) -> None:
    """A compaction has an id and a status."""
    await run_work(agent, "compact")
    shape = {"compactionId": non_empty, "status": one_of("in_progress", "completed", "failed", "cancelled")}
    require_each(agent, updates(agent, "compaction_update"), shape, "compaction_update")


@must("agent.v2update.15", "v2.md#session-information")
async def summaries_are_chunks(agent: AgentUnderTest) -> None:
    """A piece of a summary has the id of its compaction and a content block."""
    await run_work(agent, "compact")
    shape = {"compactionId": non_empty, "content": content_block}
    require_each(agent, updates(agent, "compaction_summary_chunk"), shape, "compaction_summary_chunk")


def _blocks_of(agent: AgentUnderTest, kind: str) -> list[object]:
    found = [wire(frame).get("content") for frame in updates(agent, "agent_message_chunk")]
    return [block for block in found if isinstance(block, dict) and block.get("type") == kind]


async def _require_blocks(agent: AgentUnderTest, purpose: str, kind: str, shape: Shape) -> None:
    await run_work(agent, purpose)
    for block in agent.assume(_blocks_of(agent, kind), f"the agent sent no {kind}"):
        agent.require_shape(block, shape, agent.received[-1], kind)


@must("agent.v2update.16", "v2.md#message-chunks")
async def images_have_a_type(agent: AgentUnderTest) -> None:
    """An image has data and a MIME type."""
    await _require_blocks(agent, "image", "image", {"data": non_empty, "mimeType": non_empty})


@must("agent.v2update.17", "v2.md#message-chunks")
async def sounds_have_a_type(agent: AgentUnderTest) -> None:
    """A sound has data and a MIME type."""
    await _require_blocks(agent, "audio", "audio", {"data": non_empty, "mimeType": non_empty})


@must("agent.v2update.18", "v2.md#message-chunks")
async def links_have_a_name(agent: AgentUnderTest) -> None:
    """A link has a URI and a name."""
    await _require_blocks(agent, "resource", "resource_link", {"uri": non_empty, "name": str})


@must("agent.v2update.19", "v2.md#message-chunks")
async def resources_have_a_uri(agent: AgentUnderTest) -> None:
    """An embedded resource has a URI."""
    await _require_blocks(agent, "resource", "resource", {"resource": {"uri": non_empty}})


@should("agent.v2update.20", "v2.md#updates")
async def updates_are_of_open_sessions(agent: AgentUnderTest) -> None:
    """Updates are of sessions that the client has opened."""
    await run_work(agent, "tour")
    foreign = [
        f for f in agent.calls("session/update") if f.wire_params.get("sessionId") not in ("", None, agent.session)
    ]
    agent.require_none(foreign, "an update is of a session that the client has not opened")
