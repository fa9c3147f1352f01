"""Other members of a session on a host: who joins, leaves, types, prompts and decides; the prompt queue.

Takes the host's notifications (`_dragoman/...`), returns lines and the status text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from dragoman.cli.ui.terminal import sanitize_line

# The notifications that we subscribe to.
SUBSCRIPTIONS: Mapping[str, Any] = {
    "host": {"presence": True, "queue": True, "turns": True, "permissions": True, "terminals": True}
}

# Names on the status line; more are counted.
MAX_NAMES = 4

# The host sends the members soon after we join, or never. Seconds.
PRESENCE_TIMEOUT = 1.0

# Preview of a queued prompt. Characters.
PREVIEW_LENGTH = 40

# Lines shown of the stderr of an agent that exited.
STDERR_TAIL_LINES = 5

# Commands whose output is kept until it is shown; the oldest is dropped.
MAX_TERMINAL_OUTPUTS = 32

# The error kind of a turn that a restarted host could not continue.
TURN_INTERRUPTED = "interrupted"

ShowLine = Callable[[str, str], None]  # text and style


class Presence:
    """The other members of one session."""

    def __init__(self, user: str, show_line: ShowLine, show_own_line: ShowLine | None = None) -> None:
        """`show_own_line` shows what concerns our own prompt: that it is queued, and whose files are used."""
        self.user = user
        self.session_id = ""
        self.own_turn_id = ""  # id of our own turn, once it has begun
        self.interrupted_turn_id = ""  # the last turn that ended because its host stopped
        self.is_own_turn = False  # whether updates belong to our own turn now
        self.is_others_turn = False  # or to the turn of another member
        self.members_known = asyncio.Event()  # set once the host has sent the members
        self.own_workspace = ""  # our own folder that is lent
        self.terminal_output: dict[str, str] = {}  # output of commands, by terminal id
        self.own_state = "here"  # what other members see of us
        self.prompt_author = ""  # author of the last prompt
        self._show_line = show_line
        self._show_own_line = show_own_line or show_line
        self.show_decision = show_line  # shows who answered a question that may still be open
        self._members: list[dict[str, Any]] = []
        self._queued_prompts: list[dict[str, Any]] = []
        # The last question: its title, and the names of its options.
        self._last_question: dict[str, tuple[str, dict[str, str]]] = {}
        self._answered_call_id = ""  # the last question that was answered here
        self._last_failure = ""  # why the last turn failed
        self._workspace_owners: dict[str, str] = {}  # owners of files and terminals that are not the host's
        self.on_status_change: Callable[[], None] = lambda: None  # the status line has changed
        self.on_activity: Callable[[], None] = lambda: None  # something happened in the session
        self.on_own_turn: Callable[[], None] = lambda: None  # our own prompt has left the queue
        self.on_decision: Callable[[str, str, str], None] = lambda *_: None  # a tool call, who decided, and how

    def enter_session(self, session_id: str) -> None:
        """Enter another session, of which nothing is known yet."""
        self.session_id = session_id
        self._members, self._queued_prompts, self._workspace_owners = [], [], {}
        self.members_known.clear()

    def notification_handlers(self) -> dict[str, Callable[[Any], None]]:
        """Return the handlers of the host's notifications."""
        handlers = {
            "presence": self._on_presence,
            "queue": self._on_queue,
            "turn": self._on_turn,
            "permission_resolved": self._on_permission_resolved,
            "workspace": self._on_workspace,
            "terminal": self._on_terminal,
            "agent": self._on_agent,
            "closed": self._on_closed,
        }
        return {f"_dragoman/{name}": self._for_session(handler) for name, handler in handlers.items()}

    def _for_session(self, handler: Callable[[dict[str, Any]], None]) -> Callable[[Any], None]:
        def on_notification(params: Any) -> None:
            if isinstance(params, dict) and params.get("sessionId") == self.session_id:
                handler(params)
                self.on_status_change()
                self.on_activity()

        return on_notification

    def note_question(self, params: Any) -> None:
        """Note a question: its subject and the names of its options."""
        call = params.tool_call
        title = call.title if isinstance(call.title, str) else ""
        self._last_question = {call.tool_call_id: (title, {option.option_id: option.name for option in params.options})}

    def note_answer(self, params: Any) -> None:
        """Note that the user answered it here, so the notice about the answer is not shown."""
        self._answered_call_id = str(params.tool_call.tool_call_id)

    # --- members ------------------------------------------------------------------------------------------------

    def _on_presence(self, params: dict[str, Any]) -> None:
        given = params.get("members")
        members = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
        before, now = _member_names(self._members), _member_names(members)
        self._members = members
        if not self.members_known.is_set():
            self.members_known.set()
            if len(members) > 1:
                self._show_line(f"members: {self.members_text()}", "dim")
            return
        for name in now:
            if now.count(name) > before.count(name) and (name != self.user or now.count(name) > 1):
                self._show_line(f"{sanitize_line(name)} joined ({sanitize_line(_role_of(members, name))})", "dim")
                break
        for name in dict.fromkeys(before):
            if before.count(name) > now.count(name):
                self._show_line(f"{sanitize_line(name)} left", "dim")

    def members_text(self) -> str:
        """Return all members, with role and state."""
        return ", ".join(_member_text(member) for member in self._members)

    @property
    def members(self) -> list[dict[str, Any]]:
        """All members, as the host describes them: user, role, state."""
        return self._members

    @property
    def queued_prompts(self) -> list[dict[str, Any]]:
        """The prompts that wait, the next one first: user, preview, promptId."""
        return self._queued_prompts

    async def can_others_answer(self) -> bool:
        """Return whether another member can answer questions."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PRESENCE_TIMEOUT):
                await self.members_known.wait()
        return sum(member.get("role") in ("editor", "admin") for member in self._members) > 1

    @property
    def status_text(self) -> str:
        """Text for the status line: other members, and the number of queued prompts."""
        others = list(self._members)
        own = [member for member in others if member.get("user") == self.user]
        if own:  # remove ourselves: the one that does what we do
            others.remove(next((member for member in own if member.get("state") == self.own_state), own[0]))
        parts = [_member_text(member) for member in others[:MAX_NAMES]]
        if len(others) > MAX_NAMES:
            parts.append(f"{len(others) - MAX_NAMES} more")
        text = f"with {', '.join(parts)}" if parts else ""
        if self._queued_prompts:
            text += f"{'; ' if text else ''}{len(self._queued_prompts)} queued"
        return text

    # --- notifications ------------------------------------------------------------------------------------------

    def _on_queue(self, params: dict[str, Any]) -> None:
        given = params.get("waiting")
        waiting = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
        known = {each.get("promptId") for each in self._queued_prompts}
        for position, each in enumerate(waiting, 1):
            if each.get("promptId") not in known:
                preview = sanitize_line(str(each.get("preview", "")))
                short = preview if len(preview) <= PREVIEW_LENGTH else f"{preview[:PREVIEW_LENGTH]}…"
                user = str(each.get("user", ""))
                show = self._show_own_line if user == self.user else self._show_line
                show(f"queued at position {position}: {sanitize_line(user)}: {short}", "dim")
        self._queued_prompts = waiting

    def _on_turn(self, params: dict[str, Any]) -> None:
        state = params.get("state")
        if state == "running" and self.is_own_turn:
            return  # told late to a client that joined, about an earlier turn
        if state == "yours":
            self.own_turn_id = str(params.get("turn", ""))
            self.on_own_turn()
        # A client that joins during a turn gets "running", perhaps after the turn has become its own.
        self.is_own_turn = state in ("yours", "running") and params.get("turn") == self.own_turn_id
        self.is_others_turn = state in ("started", "running") and not self.is_own_turn
        if state in ("started", "running"):
            self.prompt_author = str(params.get("by", ""))
        elif isinstance(error := params.get("error"), dict):
            turn, was_interrupted = str(params.get("turn", "")), error.get("kind") == TURN_INTERRUPTED
            if was_interrupted:
                self.interrupted_turn_id = turn
            # The answer to the prompt reports the end of our own turn, unless the host that would send it is gone.
            self._last_failure = str(error.get("message", ""))
            if was_interrupted or turn != self.own_turn_id:
                self._show_line(f"the turn failed: {_failure_text(self._last_failure)}", "yellow")

    def _on_agent(self, params: dict[str, Any]) -> None:
        """Report that the agent exited, unless a failed turn has reported it already."""
        message = str(params.get("message", "it is gone"))
        reported, self._last_failure = self._last_failure, ""
        if params.get("state") == "exited" and message != reported:
            self._show_line(f"the agent exited: {_failure_text(message)}", "yellow")

    def _on_permission_resolved(self, params: dict[str, Any]) -> None:
        by, call = str(params.get("by", "")), str(params.get("toolCallId"))
        _, options = self._last_question.get(call, ("", {}))
        if by:
            self.on_decision(call, by, _decision_text(params, options))
        if not by or call == self._answered_call_id:
            return
        title, names = self._last_question.get(call, ("", {}))
        about = f" ({sanitize_line(title)})" if title else ""
        self.show_decision(f"{sanitize_line(by)} decided: {_decision_text(params, names)}{about}", "dim")

    def _on_workspace(self, params: dict[str, Any]) -> None:
        """Show whose files and terminals the agent uses, when that changes."""
        for what in ("files", "terminals"):
            owner = params.get(what)
            owner_text = self._owner_text(owner) if isinstance(owner, dict) else ""
            if owner_text != self._workspace_owners.get(what, ""):
                self._workspace_owners[what] = owner_text
                self._show_own_line(f"{what}: {owner_text or 'on the host'}", "dim")

    def _owner_text(self, owner: dict[str, Any]) -> str:
        user, program = str(owner.get("user", "")), sanitize_line(str(owner.get("client") or ""))
        if self.own_workspace and user == self.user:
            return f"yours, in {sanitize_line(self.own_workspace)}"
        return f"of {sanitize_line(user)}{f' ({program})' if program else ''}"

    def _on_terminal(self, params: dict[str, Any]) -> None:
        self.terminal_output[str(params.get("terminalId", ""))] = str(params.get("output", ""))
        if len(self.terminal_output) > MAX_TERMINAL_OUTPUTS:
            del self.terminal_output[next(iter(self.terminal_output))]

    def _on_closed(self, params: dict[str, Any]) -> None:
        self._show_line(sanitize_line(str(params.get("reason", "the session was closed"))), "yellow")


def _decision_text(params: dict[str, Any], names: Mapping[str, str]) -> str:
    """Return the answer of another member, as far as it is known."""
    outcome = params.get("outcome")
    answer = outcome.get("outcome") if isinstance(outcome, dict) else outcome
    option = str(outcome.get("optionId", "")) if isinstance(outcome, dict) else ""
    return sanitize_line(names.get(option) or option or str(answer or "something"))


def _failure_text(message: str) -> str:
    """Return why an agent exited, and below it the end of its stderr."""
    reason, _, stderr = message.partition("; stderr: ")
    lines = stderr.splitlines()[-STDERR_TAIL_LINES:]
    return "\n".join([f"{sanitize_line(reason)}{'; stderr:' if lines else ''}", *map(sanitize_line, lines)])


def _member_names(members: list[dict[str, Any]]) -> list[str]:
    return [str(member.get("user", "")) for member in members]


def _role_of(members: list[dict[str, Any]], name: str) -> str:
    return next((str(member.get("role", "")) for member in members if member.get("user") == name), "")


def _member_text(member: dict[str, Any]) -> str:
    state = member.get("state")
    doing = f", {state}" if state in ("typing", "idle", "away") else ""
    return f"{sanitize_line(str(member.get('user', '')))} ({sanitize_line(str(member.get('role', '')))}{doing})"
