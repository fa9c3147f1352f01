"""Who else is in a session of a host, as one chat shows it: people who come and go, type, ask and decide; the queue.

Takes the host's notifications (`_dragoman/...`), gives lines for the person and words for the status line. What is said
in the session goes another way. Above is chat; knows no connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from dragoman.cli.ui.terminal import sanitize_line

# What the host is told that we want to hear of.
SUBSCRIPTIONS: Mapping[str, Any] = {
    "host": {"presence": True, "queue": True, "turns": True, "permissions": True, "terminals": True}
}

# Names on the status line; more are counted.
MAX_NAMES = 4

# Who is here is told soon after one has come, or nobody tells it. Seconds.
PRESENCE_TIMEOUT = 1.0

# A preview of a prompt that waits; characters.
PREVIEW_LENGTH = 40

# Lines shown of what an agent wrote before it died.
STDERR_TAIL_LINES = 5

# Commands whose output is kept until it is shown; the oldest falls away.
MAX_TERMINAL_OUTPUTS = 32

# How a host calls the error of a turn that it could not go on with after it was started again.
TURN_INTERRUPTED = "interrupted"

ShowLine = Callable[[str, str], None]  # a line of ours, and its style


class Presence:
    """The others in one session."""

    def __init__(self, user: str, show_line: ShowLine, show_own_line: ShowLine | None = None) -> None:
        """`tell_own` says what concerns one's own prompt: that it waits, and whose files are used."""
        self.user = user
        self.session_id = ""
        self.own_turn_id = ""  # the id of one's own turn, once it has begun
        self.interrupted_turn_id = ""  # the last turn that did not end but was ended, for its host was
        self.is_own_turn = False  # whether what is heard now is said in one's own turn
        self.is_others_turn = False  # or in the turn of somebody else
        self.members_known = asyncio.Event()  # set once somebody told us who is here
        self.own_workspace = ""  # the folder of one's own that is lent
        self.terminal_output: dict[str, str] = {}  # what commands printed, by terminal
        self.own_state = "here"  # what the others see of us
        self.prompt_author = ""  # who asked last
        self._show_line = show_line
        self._show_own_line = show_own_line or show_line
        self.show_decision = show_line  # says who answered a question that may still stand there
        self._members: list[dict[str, Any]] = []
        self._queued_prompts: list[dict[str, Any]] = []
        self._last_question: dict[
            str, tuple[str, dict[str, str]]
        ] = {}  # the last question: its title, and names of answers
        self._answered_call_id = ""  # the last one that was answered here
        self._last_failure = ""  # why the last turn failed
        self._workspace_owners: dict[str, str] = {}  # files and terminals that are not the host's: whose
        self.on_status_change: Callable[[], None] = lambda: None  # the status line is another one now
        self.on_activity: Callable[[], None] = lambda: None  # something was heard of the session

    def enter_session(self, session_id: str) -> None:
        """Be in another session, of which nothing is known yet."""
        self.session_id = session_id
        self._members, self._queued_prompts, self._workspace_owners = [], [], {}
        self.members_known.clear()

    def notification_handlers(self) -> dict[str, Callable[[Any], None]]:
        """What a connection does with the host's notifications."""
        return {
            "_dragoman/presence": self._for_session(self._on_presence),
            "_dragoman/queue": self._for_session(self._on_queue),
            "_dragoman/turn": self._for_session(self._on_turn),
            "_dragoman/permission_resolved": self._for_session(self._on_permission_resolved),
            "_dragoman/workspace": self._for_session(self._on_workspace),
            "_dragoman/terminal": self._for_session(self._on_terminal),
            "_dragoman/agent": self._for_session(self._on_agent),
            "_dragoman/closed": self._for_session(self._on_closed),
        }

    def _for_session(self, handler: Callable[[dict[str, Any]], None]) -> Callable[[Any], None]:
        def heard(params: Any) -> None:
            if isinstance(params, dict) and params.get("sessionId") == self.session_id:
                handler(params)
                self.on_status_change()
                self.on_activity()

        return heard

    def note_question(self, params: Any) -> None:
        """A question came: what it is about, and what its answers are called."""
        call = params.tool_call
        title = call.title if isinstance(call.title, str) else ""
        self._last_question = {call.tool_call_id: (title, {option.option_id: option.name for option in params.options})}

    def note_answer(self, params: Any) -> None:
        """The person here answered it, perhaps in another window of theirs than the one that was faster."""
        self._answered_call_id = str(params.tool_call.tool_call_id)

    # --- who is here --------------------------------------------------------------------------------------------

    def _on_presence(self, params: dict[str, Any]) -> None:
        given = params.get("members")
        members = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
        before, now = _member_names(self._members), _member_names(members)
        self._members = members
        if not self.members_known.is_set():
            self.members_known.set()
            if len(members) > 1:
                self._show_line(f"here: {self.members_text()}", "dim")
            return
        for name in now:
            if now.count(name) > before.count(name) and (name != self.user or now.count(name) > 1):
                self._show_line(f"{sanitize_line(name)} came ({sanitize_line(_role_of(members, name))})", "dim")
                break
        for name in dict.fromkeys(before):
            if before.count(name) > now.count(name):
                self._show_line(f"{sanitize_line(name)} left", "dim")

    def members_text(self) -> str:
        """Everybody who is here, with what they are and do."""
        return ", ".join(_member_text(member) for member in self._members)

    async def can_others_answer(self) -> bool:
        """Whether somebody else is here who may answer questions."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PRESENCE_TIMEOUT):
                await self.members_known.wait()
        return sum(member.get("role") in ("editor", "admin") for member in self._members) > 1

    @property
    def status_text(self) -> str:
        """For the line at the bottom: the others, and how many prompts wait."""
        others = list(self._members)
        mine = [member for member in others if member.get("user") == self.user]
        if mine:  # one of them is we: the one that does what we do
            others.remove(next((member for member in mine if member.get("state") == self.own_state), mine[0]))
        parts = [_member_text(member) for member in others[:MAX_NAMES]]
        if len(others) > MAX_NAMES:
            parts.append(f"{len(others) - MAX_NAMES} more")
        words = f"with {', '.join(parts)}" if parts else ""
        if self._queued_prompts:
            words += f"{'; ' if words else ''}{len(self._queued_prompts)} waiting"
        return words

    # --- what they do -------------------------------------------------------------------------------------------

    def _on_queue(self, params: dict[str, Any]) -> None:
        given = params.get("waiting")
        waiting = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
        known = {each.get("promptId") for each in self._queued_prompts}
        for place, each in enumerate(waiting, 1):
            if each.get("promptId") not in known:
                preview = sanitize_line(str(each.get("preview", "")))
                short = preview if len(preview) <= PREVIEW_LENGTH else f"{preview[:PREVIEW_LENGTH]}…"
                user = str(each.get("user", ""))
                tell = self._show_own_line if user == self.user else self._show_line
                tell(f"waiting, number {place}: {sanitize_line(user)}: {short}", "dim")
        self._queued_prompts = waiting

    def _on_turn(self, params: dict[str, Any]) -> None:
        state = params.get("state")
        if state == "yours":
            self.own_turn_id = str(params.get("turn", ""))
        # Who comes in the middle is told that a turn runs, perhaps after it has become their own.
        self.is_own_turn = state in ("yours", "running") and params.get("turn") == self.own_turn_id
        self.is_others_turn = state in ("started", "running") and not self.is_own_turn
        if state in ("started", "running"):
            self.prompt_author = str(params.get("by", ""))
        elif isinstance(error := params.get("error"), dict):
            turn, is_cut_off = str(params.get("turn", "")), error.get("kind") == TURN_INTERRUPTED
            if is_cut_off:
                self.interrupted_turn_id = turn
            # Of one's own turn the prompt's answer tells, unless the host that would give it is gone.
            self._last_failure = str(error.get("message", ""))
            if is_cut_off or turn != self.own_turn_id:
                self._show_line(f"the turn failed: {_failure_text(self._last_failure)}", "yellow")

    def _on_agent(self, params: dict[str, Any]) -> None:
        """The agent died: in a turn, its failure has told that already."""
        message = str(params.get("message", "it is gone"))
        told, self._last_failure = self._last_failure, ""
        if params.get("state") == "exited" and message != told:
            self._show_line(f"the agent ended: {_failure_text(message)}", "yellow")

    def _on_permission_resolved(self, params: dict[str, Any]) -> None:
        by, call = str(params.get("by", "")), str(params.get("toolCallId"))
        if not by or call == self._answered_call_id:
            return
        title, names = self._last_question.get(call, ("", {}))
        about = f" ({sanitize_line(title)})" if title else ""
        self.show_decision(f"{sanitize_line(by)} decided: {_decision_text(params, names)}{about}", "dim")

    def _on_workspace(self, params: dict[str, Any]) -> None:
        """Say whose files and terminals the agent uses, when they are not, or no longer, those it had before."""
        for what in ("files", "terminals"):
            whose = params.get(what)
            lender = self._owner_text(whose) if isinstance(whose, dict) else ""
            if lender != self._workspace_owners.get(what, ""):
                self._workspace_owners[what] = lender
                self._show_own_line(f"{what}: {lender or 'those of the host'}", "dim")

    def _owner_text(self, owner: dict[str, Any]) -> str:
        user, program = str(owner.get("user", "")), sanitize_line(str(owner.get("client") or ""))
        if self.own_workspace and user == self.user:
            return f"yours, in {sanitize_line(self.own_workspace)}"
        return f"those of {sanitize_line(user)}{f' ({program})' if program else ''}"

    def _on_terminal(self, params: dict[str, Any]) -> None:
        self.terminal_output[str(params.get("terminalId", ""))] = str(params.get("output", ""))
        if len(self.terminal_output) > MAX_TERMINAL_OUTPUTS:
            del self.terminal_output[next(iter(self.terminal_output))]

    def _on_closed(self, params: dict[str, Any]) -> None:
        self._show_line(sanitize_line(str(params.get("reason", "the session was closed"))), "yellow")


def _decision_text(params: dict[str, Any], names: Mapping[str, str]) -> str:
    """What somebody answered, as far as it is told."""
    outcome = params.get("outcome")
    said = outcome.get("outcome") if isinstance(outcome, dict) else outcome
    option = str(outcome.get("optionId", "")) if isinstance(outcome, dict) else ""
    return sanitize_line(names.get(option) or option or str(said or "something"))


def _failure_text(message: str) -> str:
    """Why an agent is gone, and below it the end of what it wrote, where the cause is."""
    why, _, words = message.partition("; last words: ")
    lines = words.splitlines()[-STDERR_TAIL_LINES:]
    return "\n".join([f"{sanitize_line(why)}{'; it said:' if lines else ''}", *map(sanitize_line, lines)])


def _member_names(members: list[dict[str, Any]]) -> list[str]:
    return [str(member.get("user", "")) for member in members]


def _role_of(members: list[dict[str, Any]], name: str) -> str:
    return next((str(member.get("role", "")) for member in members if member.get("user") == name), "")


def _member_text(member: dict[str, Any]) -> str:
    state = member.get("state")
    doing = f", {state}" if state in ("typing", "idle", "away") else ""
    return f"{sanitize_line(str(member.get('user', '')))} ({sanitize_line(str(member.get('role', '')))}{doing})"
