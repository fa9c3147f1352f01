"""Updates that a v2 client must survive: whole messages, patches, terminals, plans, and what is unknown."""

from __future__ import annotations

from typing import NamedTuple

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.peer import Json
from dragoman.conformance.requirement import must


class Case(NamedTuple):
    """Updates that a client must survive: the requirement, what to call them, its source, and the updates."""

    sentence: str
    what: str
    source: str
    updates: tuple[Json, ...]


def _update(kind: str, /, **members: Json) -> Json:
    return {"sessionUpdate": kind, **members}


def _call(id: str, /, **members: Json) -> Json:
    return _update("tool_call_update", toolCallId=id, **members)


def _content(id: str, item: Json) -> Json:
    return _call(id, title="Do something", kind="edit", status="completed", content=[item])


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


CHANGE = {"operation": "modify", "path": "/tmp/a.txt", "fileType": "text"}
PATCH = "diff --git /tmp/a.txt /tmp/a.txt\n--- /tmp/a.txt\n+++ /tmp/a.txt\n@@ -1 +1 @@\n-old\n+new\n"
ENTRY = {"content": "Tidy up", "priority": "high", "status": "cancelled"}
OPTION = {"configId": "tone", "name": "Tone", "type": "_dial", "currentValue": 3}
COMMAND = {"name": "help", "description": "Helps"}

# The last update of each case is the one that the requirement is about.
CASES: dict[str, Case] = {
    "client.v2update.01": Case(
        "An update of an unknown kind does no harm.", "an unknown update", "updates", (_update("vendor_tide", level=3),)
    ),
    "client.v2update.02": Case(
        "A vendor's own update does no harm.", "a vendor's update", "updates", (_update("_example.org/tide", level=3),)
    ),
    "client.v2update.03": Case(
        "A whole message of the agent does no harm.",
        "a whole message",
        "whole-messages",
        (_update("agent_message", messageId="w3", content=[_text("whole"), _text("message")]),),
    ),
    "client.v2update.04": Case(
        "A message can be replaced.",
        "a replaced message",
        "whole-messages",
        (
            _update("agent_message_chunk", messageId="w4", content=_text("first")),
            _update("agent_message", messageId="w4", content=[_text("second")]),
        ),
    ),
    "client.v2update.05": Case(
        "A message can be taken back with null.",
        "a message that was taken back",
        "whole-messages",
        (
            _update("agent_message_chunk", messageId="w5", content=_text("gone")),
            _update("agent_message", messageId="w5", content=None),
        ),
    ),
    "client.v2update.06": Case(
        "A whole thought does no harm.",
        "a whole thought",
        "whole-messages",
        (_update("agent_thought", messageId="w6", content=[_text("hm")]),),
    ),
    "client.v2update.07": Case(
        "Pieces of two messages may alternate.",
        "messages that alternate",
        "message-chunks",
        (
            _update("agent_message_chunk", messageId="w7a", content=_text("one")),
            _update("agent_message_chunk", messageId="w7b", content=_text("two")),
            _update("agent_message_chunk", messageId="w7a", content=_text("three")),
        ),
    ),
    "client.v2update.08": Case(
        "A tool call may begin without a title.",
        "a tool call without a title",
        "tool-calls",
        (_call("t8", status="in_progress"),),
    ),
    "client.v2update.09": Case(
        "Members of a tool call can be cleared.",
        "a cleared tool call",
        "tool-calls",
        (
            _content("t9", {"type": "content", "content": _text("old")}),
            _call("t9", content=None, locations=None, kind=None, rawOutput=None),
        ),
    ),
    "client.v2update.10": Case(
        "Content can be appended to a tool call.",
        "appended content",
        "tool-calls",
        (
            _call("t10", title="Grow"),
            _update("tool_call_content_chunk", toolCallId="t10", content={"type": "content", "content": _text("more")}),
        ),
    ),
    "client.v2update.11": Case(
        "A tool call may be paused.", "a paused tool call", "tool-calls", (_call("t11", title="Rest", status="paused"),)
    ),
    "client.v2update.12": Case(
        "A tool call may have an unknown status.",
        "an unknown status",
        "tool-calls",
        (_call("t12", title="Odd", status="_dreaming"),),
    ),
    "client.v2update.13": Case(
        "A tool call may have an unknown kind.",
        "an unknown kind",
        "tool-calls",
        (_call("t13", title="Odd", kind="_telepathy"),),
    ),
    "client.v2update.14": Case(
        "A tool call may have unknown content.",
        "unknown content",
        "tool-calls",
        (_content("t14", {"type": "_hologram", "data": [1, 2]}),),
    ),
    "client.v2update.15": Case(
        "A diff with a patch does no harm.",
        "a diff with a patch",
        "diffs",
        (_content("t15", {"type": "diff", "changes": [CHANGE], "patch": {"format": "git_patch", "text": PATCH}}),),
    ),
    "client.v2update.16": Case(
        "A diff may have no patch.",
        "a diff without a patch",
        "diffs",
        (_content("t16", {"type": "diff", "changes": [{**CHANGE, "fileType": "binary"}]}),),
    ),
    "client.v2update.17": Case(
        "A diff may have a patch of an unknown format.",
        "a patch of an unknown format",
        "diffs",
        (_content("t17", {"type": "diff", "changes": [CHANGE], "patch": {"format": "_ed", "text": "1d"}}),),
    ),
    "client.v2update.18": Case(
        "A terminal of the agent does no harm.",
        "a terminal of the agent",
        "terminals",
        (_update("terminal_update", terminalId="e18", command="make", cwd="/tmp", size={"cols": 80, "rows": 24}),),
    ),
    "client.v2update.19": Case(
        "The output of a terminal may be any bytes.",
        "output that is not text",
        "terminals",
        (
            _update("terminal_update", terminalId="e19", command="cat"),
            _update("terminal_output_chunk", terminalId="e19", data="//79gBtbMW0="),
        ),
    ),
    "client.v2update.20": Case(
        "The output of a terminal may come before the terminal.",
        "output of an unknown terminal",
        "terminals",
        (_update("terminal_output_chunk", terminalId="e20", data="aGVsbG8="),),
    ),
    "client.v2update.21": Case(
        "A terminal may end without a code.",
        "an exit status without a code",
        "terminals",
        (_update("terminal_update", terminalId="e21", exitStatus={}),),
    ),
    "client.v2update.22": Case(
        "A plan may have cancelled entries.",
        "a plan with a cancelled entry",
        "plans",
        (_update("plan_update", plan={"type": "items", "planId": "p22", "entries": [ENTRY]}),),
    ),
    "client.v2update.23": Case(
        "A plan may have an unknown type.",
        "a plan of an unknown type",
        "plans",
        (_update("plan_update", plan={"type": "_map", "planId": "p23"}),),
    ),
    "client.v2update.24": Case(
        "An option may have an unknown type.",
        "an option of an unknown type",
        "options",
        (_update("config_option_update", configOptions=[OPTION]),),
    ),
    "client.v2update.25": Case(
        "A command may have no tag.",
        "a command without a tag",
        "commands",
        (_update("available_commands_update", availableCommands=[COMMAND]),),
    ),
    "client.v2update.26": Case(
        "A notice does no harm.",
        "a notice",
        "session-information",
        (_update("notice", severity="warning", title="The disk is nearly full"),),
    ),
    "client.v2update.27": Case(
        "A compaction does no harm.",
        "a compaction",
        "session-information",
        (_update("compaction_update", compactionId="c27", status="in_progress"),),
    ),
    "client.v2update.28": Case(
        "A message may have an unknown kind of content.",
        "unknown content of a message",
        "message-chunks",
        (_update("agent_message_chunk", messageId="w28", content={"type": "_scent", "data": "rose"}),),
    ),
}


async def _survive(client: ClientUnderTest, case: Case) -> None:
    async with client.turn(survives=case.what):
        for update in case.updates:
            client.notify("session/update", {"sessionId": client.session, "update": update})


def _declare(id: str, case: Case) -> None:
    async def probe(client: ClientUnderTest) -> None:
        await _survive(client, case)

    probe.__doc__ = case.sentence
    must(id, f"v2.md#{case.source}")(probe)


for _id, _case in CASES.items():
    _declare(_id, _case)
