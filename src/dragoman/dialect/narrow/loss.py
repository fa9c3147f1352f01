"""What a client that lacks a feature is not told, each by a name; reported once on a connection."""

from __future__ import annotations

from typing import Final


class Loss:
    """The names of what is lost."""

    REPLACED_MESSAGE: Final = "replaced_message"
    REQUIRES_ACTION: Final = "requires_action"
    SESSION_STATE: Final = "session_state"
    CUSTOM_STATE: Final = "custom_state"
    STOP_REASON: Final = "stop_reason"
    BACKGROUND: Final = "background"
    CANCEL_TOOL_CALL: Final = "cancel_tool_call"
    CANCEL_TERMINAL: Final = "cancel_terminal"
    PAUSED: Final = "paused"
    TOOL_STATUS: Final = "tool_status"
    TOOL_KIND: Final = "tool_kind"
    CLEARED_MEMBER: Final = "cleared_member"
    TERMINAL_STYLE: Final = "terminal_style"
    TERMINAL_BYTES: Final = "terminal_bytes"
    FILE_OPERATION: Final = "file_operation"
    PATCH: Final = "patch"
    MIME_TYPE: Final = "mime_type"
    PLANS: Final = "plans"
    CANCELLED_ENTRY: Final = "cancelled_entry"
    PLAN_FORM: Final = "plan_form"
    PERMISSION_TEXT: Final = "permission_text"
    PERMISSION_SUBJECT: Final = "permission_subject"
    PERMISSION_OPTION: Final = "permission_option"
    OPTION_TYPE: Final = "option_type"
    NOTICES: Final = "notices"
    COMPACTION: Final = "compaction"
    SUBAGENTS: Final = "subagents"
    ICONS: Final = "icons"
    UNKNOWN_CONTENT: Final = "unknown_content"
    UNKNOWN_UPDATE: Final = "unknown_update"


# What happens instead.
LOSSES: Final[dict[str, str]] = {
    Loss.REPLACED_MESSAGE: "the client cannot take words back, so a changed message is sent again as a new one",
    Loss.REQUIRES_ACTION: "the client is not told that the session waits for the user",
    Loss.SESSION_STATE: "the client is not told what the session does outside of its own prompts",
    Loss.CUSTOM_STATE: "a state of the agent's own is left out",
    Loss.STOP_REASON: "a stop reason of the agent's own is sent as end_turn",
    Loss.BACKGROUND: "the client is not told what goes on in the background",
    Loss.CANCEL_TOOL_CALL: "the client cannot cancel a single tool call",
    Loss.CANCEL_TERMINAL: "the client cannot end the command of a single terminal",
    Loss.PAUSED: "a paused tool call is sent as in_progress",
    Loss.TOOL_STATUS: "a status of the agent's own is sent as in_progress",
    Loss.TOOL_KIND: "a kind of tool of the agent's own is sent as other",
    Loss.CLEARED_MEMBER: "rawInput, rawOutput or name of a tool call was removed, but the client keeps it",
    Loss.TERMINAL_STYLE: "colors and cursor movements of terminals are removed",
    Loss.TERMINAL_BYTES: "bytes of terminals that are no text are replaced",
    Loss.FILE_OPERATION: "a change of a file other than adding or editing text is described in words",
    Loss.PATCH: "a patch is sent as the changed places of its files",
    Loss.MIME_TYPE: "MIME types of changed files are left out",
    Loss.PLANS: "of several plans only the one that changed last is sent",
    Loss.CANCELLED_ENTRY: "cancelled entries of a plan are left out",
    Loss.PLAN_FORM: "a plan in Markdown or in a file is sent as a list",
    Loss.PERMISSION_TEXT: "title and description of a permission request are sent as content of its tool call",
    Loss.PERMISSION_SUBJECT: "a permission request without a tool call is sent with a made-up one",
    Loss.PERMISSION_OPTION: "an answer of an unknown kind is sent as reject_once",
    Loss.OPTION_TYPE: "config options that the client cannot show are left out",
    Loss.NOTICES: "the client does not announce notices, so they are left out",
    Loss.COMPACTION: "the client does not announce compaction, so it is left out",
    Loss.SUBAGENTS: "the client does not announce subagents, so they are left out",
    Loss.ICONS: "icons of links are left out",
    Loss.UNKNOWN_CONTENT: "content of an unknown type is sent as its name",
    Loss.UNKNOWN_UPDATE: "updates of an unknown kind are left out",
}


class LossReports:
    """The losses of one connection: each is reported once, and `take` returns what is new."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._new: list[str] = []

    def add(self, name: str, detail: str = "") -> None:
        """Report a loss; once for each detail."""
        key = f"{name} {detail}" if detail else name
        if key in self._seen or len(self._seen) > MAX_REPORTS:
            return
        self._seen.add(key)
        self._new.append(f"not passed on ({key}): {LOSSES[name]}")

    def add_text(self, text: str) -> None:
        """Report something else that the user should know; every time."""
        self._new.append(text)

    def take(self) -> list[str]:
        """Return the reports since the last time."""
        if not self._new:
            return []
        new, self._new = self._new, []
        return new


# Names of unknown kinds come from the agent, which may make up any number of them.
MAX_REPORTS: Final = 200
