"""Tool calls of a v2 agent: patches, statuses, contents, diffs."""

from __future__ import annotations

from dragoman.conformance.agent.v2.work import FINAL, Work, open_calls, require_each, run_work, updates, wire
from dragoman.conformance.harness.agent import QUESTION, REJECT, AgentUnderTest
from dragoman.conformance.harness.peer import Json, ReceivedFrame
from dragoman.conformance.json_shape import absolute, line_number, non_empty, one_of
from dragoman.conformance.requirement import may, must, should

STATUSES = one_of("pending", "in_progress", "completed", "failed", "cancelled", "paused")
KINDS = one_of("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
OPERATIONS = one_of("add", "modify", "delete", "move", "copy")
CONTENTS = one_of("content", "diff", "terminal")


async def _calls(agent: AgentUnderTest, purpose: str = "tour") -> tuple[Work, list[ReceivedFrame]]:
    work = await run_work(agent, purpose)
    found = updates(agent, "tool_call_update", start=work.start)
    return work, agent.assume(found, "the agent made no tool call")


def _contents(found: list[ReceivedFrame], kind: str = "") -> list[tuple[Json, ReceivedFrame]]:
    items = [(item, frame) for frame in found for item in wire(frame).get("content") or ()]
    return [(item, frame) for item, frame in items if not kind or (isinstance(item, dict) and item.get("type") == kind)]


async def _diffs(agent: AgentUnderTest) -> list[tuple[Json, ReceivedFrame]]:
    await agent.open_session()
    _, found = await _calls(agent, "write")
    return agent.assume(_contents(found, "diff"), "the agent showed no diff")


@must("agent.v2toolcall.01", "v2.md#tool-calls")
async def calls_have_an_id(agent: AgentUnderTest) -> None:
    """An update of a tool call has its id."""
    await run_work(agent, "tour")
    require_each(agent, updates(agent, "tool_call_update"), {"toolCallId": non_empty}, "tool_call_update")


@must("agent.v2toolcall.02", "v2.md#tool-calls")
async def calls_have_a_title(agent: AgentUnderTest) -> None:
    """The first update of a tool call has a title."""
    _, found = await _calls(agent)
    seen = set()
    for frame in found:
        id = wire(frame).get("toolCallId")
        agent.require(id in seen or wire(frame).get("title"), "the first update of a tool call has no title", frame)
        seen.add(id)


@must("agent.v2toolcall.03", "v2.md#tool-calls")
async def statuses_are_known(agent: AgentUnderTest) -> None:
    """The status of a tool call is one of the protocol's, or begins with an underscore."""
    _, found = await _calls(agent)
    for frame in found:
        agent.require_shape(wire(frame), {"status?": STATUSES}, frame)


@must("agent.v2toolcall.04", "v2.md#tool-calls")
async def kinds_are_known(agent: AgentUnderTest) -> None:
    """The kind of a tool call is one of the protocol's, or begins with an underscore."""
    _, found = await _calls(agent)
    for frame in found:
        agent.require_shape(wire(frame), {"kind?": KINDS}, frame)


@must("agent.v2toolcall.05", "v2.md#tool-calls")
async def calls_end_with_the_work(agent: AgentUnderTest) -> None:
    """When work has ended, its tool calls have a final status."""
    work, _ = await _calls(agent)
    agent.require(not open_calls(agent, work.start), "a tool call is open after the end of its work", work.idle)


@must("agent.v2toolcall.06", "v2.md#tool-calls")
async def final_statuses_stay(agent: AgentUnderTest) -> None:
    """A tool call with a final status gets no other status."""
    _, found = await _calls(agent)
    last: dict[Json, str] = {}
    for frame in found:
        id, status = wire(frame).get("toolCallId"), wire(frame).get("status")
        if isinstance(status, str):
            agent.require(last.get(id) not in FINAL, f"a tool call went from {last.get(id)} to {status}", frame)
            last[id] = status


@must("agent.v2toolcall.07", "v2.md#tool-calls")
async def contents_have_a_type(agent: AgentUnderTest) -> None:
    """An item of the content of a tool call has a known type, or one that begins with an underscore."""
    _, found = await _calls(agent)
    for item, frame in agent.assume(_contents(found), "the tool calls have no content"):
        agent.require_shape(item, {"type": CONTENTS}, frame, "content")


@must("agent.v2toolcall.08", "v2.md#diffs")
async def diffs_have_changes(agent: AgentUnderTest) -> None:
    """A diff has a list of changes."""
    for item, frame in await _diffs(agent):
        agent.require_shape(item, {"changes": list}, frame, "diff")


@must("agent.v2toolcall.09", "v2.md#diffs")
async def changes_have_an_operation(agent: AgentUnderTest) -> None:
    """A change of a diff has a known operation."""
    for item, frame in await _diffs(agent):
        agent.require_shape(item.get("changes") or [], [{"operation": OPERATIONS}], frame, "changes")


@must("agent.v2toolcall.10", "v2.md#diffs")
async def changed_paths_are_absolute(agent: AgentUnderTest) -> None:
    """The path of a change is absolute."""
    for item, frame in await _diffs(agent):
        agent.require_shape(item.get("changes") or [], [{"path": absolute}], frame, "changes")


@must("agent.v2toolcall.11", "v2.md#diffs")
async def patches_have_a_format(agent: AgentUnderTest) -> None:
    """The patch of a diff has a format and a text; a git_patch begins with a section."""
    patches = [(item["patch"], frame) for item, frame in await _diffs(agent) if item.get("patch")]
    for patch, frame in agent.skip_unless(patches, "the agent's diffs have no patch"):
        agent.require_shape(patch, {"format": non_empty, "text": non_empty}, frame, "patch")
        is_git = patch["format"] != "git_patch" or patch["text"].startswith("diff --git ")
        agent.require(is_git, "a git_patch does not begin with diff --git", frame)


@must("agent.v2toolcall.12", "v2.md#tool-calls")
async def locations_are_absolute(agent: AgentUnderTest) -> None:
    """The location of a tool call has an absolute path and a line from 1 on."""
    _, found = await _calls(agent)
    places = [(place, frame) for frame in found for place in wire(frame).get("locations") or ()]
    for place, frame in agent.assume(places, "the tool calls have no locations"):
        agent.require_shape(place, {"path": absolute, "line?": line_number}, frame, "location")


@may("agent.v2toolcall.13", "v2.md#tool-calls")
async def content_is_appended(agent: AgentUnderTest) -> None:
    """tool_call_content_chunk has the id of its tool call and one item."""
    await agent.open_session()
    agent.skip_unless(agent.has_prompt("clear"), "no prompt makes this agent append to a tool call")
    await run_work(agent, "clear")
    found = agent.skip_unless(updates(agent, "tool_call_content_chunk"), "the agent appends nothing to tool calls")
    shape = {"toolCallId": non_empty, "content": {"type": CONTENTS}}
    require_each(agent, found, shape, "tool_call_content_chunk")


@may("agent.v2toolcall.14", "v2.md#tool-calls")
async def cleared_members_are_null(agent: AgentUnderTest) -> None:
    """A member of a tool call is cleared by null."""
    await agent.open_session()
    agent.skip_unless(agent.has_prompt("clear"), "no prompt makes this agent clear a tool call")
    work = await run_work(agent, "clear")
    found = updates(agent, "tool_call_update", start=work.start)
    cleared = [frame for frame in found if "content" in wire(frame) and wire(frame)["content"] is None]
    agent.require(cleared, "the content of a tool call was cleared by another way than null", *found[-1:])


@may("agent.v2toolcall.15", "v2.md#tool-calls")
async def cancels_are_announced(agent: AgentUnderTest) -> None:
    """What can be cancelled alone has capabilities with cancel as an object."""
    await agent.open_session()
    agent.skip_unless(agent.has_prompt("terminal"), "no prompt makes this agent offer the cancel of a part")
    await run_work(agent, "terminal")
    found = [f for f in updates(agent, "tool_call_update", "terminal_update") if wire(f).get("capabilities")]
    for frame in agent.skip_unless(found, "the agent offers no cancel of a part"):
        agent.require_shape(wire(frame)["capabilities"], {"cancel?": dict}, frame, "capabilities")


@must("agent.v2toolcall.16", "v2.md#permission")
async def refused_calls_end(agent: AgentUnderTest) -> None:
    """A tool call that the user refused ends as failed or cancelled."""
    await agent.open_session()
    agent.permission_kinds = REJECT
    work, found = await _calls(agent, "write")
    agent.assume(agent.calls(QUESTION), "the agent did not ask for permission")
    statuses = [wire(frame).get("status") for frame in found if wire(frame).get("status")]
    is_refused = statuses[-1:] in (["failed"], ["cancelled"])
    agent.require(is_refused, f"a refused tool call is {statuses[-1:]}", work.idle)


@should("agent.v2toolcall.17", "v2.md#tool-calls")
async def diffs_are_not_of_version_one(agent: AgentUnderTest) -> None:
    """A diff has no oldText and newText, which clients of version 2 drop."""
    for item, frame in await _diffs(agent):
        old = sorted({"oldText", "newText"} & item.keys())
        agent.require(not old, f"a diff has {', '.join(old)}, which is of version 1", frame)
