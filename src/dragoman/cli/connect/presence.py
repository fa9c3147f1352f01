"""Who else is in a session of a host, as one chat shows it: people who come and go, type, ask and decide; the queue.

Takes the host's notifications (`_dragoman/...`), gives lines for the person and words for the status line. What is said
in the session goes another way. Above is chat; knows no connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from dragoman.cli.ui.terminal import single

# What the host is told that we want to hear of.
ANNOUNCED: Mapping[str, Any] = {
    "host": {"presence": True, "queue": True, "turns": True, "permissions": True, "terminals": True}
}

# Names on the status line; more are counted.
NAMED = 4

# Who is here is told soon after one has come, or nobody tells it. Seconds.
TOLD = 1.0

# A preview of a prompt that waits; characters.
PREVIEW = 40

# Lines shown of what an agent wrote before it died.
LAST_WORDS = 5

# Commands whose output is kept until it is shown; the oldest falls away.
PRINTED = 32

# How a host calls the error of a turn that it could not go on with after it was started again.
INTERRUPTED = "interrupted"

Tell = Callable[[str, str], None]  # a line of ours, and its style


class Company:
    """The others in one session."""

    def __init__(self, user: str, tell: Tell, tell_own: Tell | None = None) -> None:
        """`tell_own` says what concerns one's own prompt: that it waits, and whose files are used."""
        self.user = user
        self.session = ""
        self.turn = ""  # the id of one's own turn, once it has begun
        self.cut_off = ""  # the last turn that did not end but was ended, for its host was
        self.is_ours = False  # whether what is heard now is said in one's own turn
        self.is_theirs = False  # or in the turn of somebody else
        self.known = asyncio.Event()  # set once somebody told us who is here
        self.lends = ""  # the folder of one's own that is lent
        self.printed: dict[str, str] = {}  # what commands printed, by terminal
        self.state = "here"  # what the others see of us
        self.asker = ""  # who asked last
        self._tell = tell
        self._tell_own = tell_own or tell
        self.tell_decided = tell  # says who answered a question that may still stand there
        self._members: list[dict[str, Any]] = []
        self._waiting: list[dict[str, Any]] = []
        self._asked: dict[str, tuple[str, dict[str, str]]] = {}  # the last question: its title, and names of answers
        self._answered = ""  # the last one that was answered here
        self._failure = ""  # why the last turn failed
        self._lent: dict[str, str] = {}  # files and terminals that are not the host's: whose
        self.changed: Callable[[], None] = lambda: None  # the status line is another one now
        self.stirred: Callable[[], None] = lambda: None  # something was heard of the session

    def enter(self, session: str) -> None:
        """Be in another session, of which nothing is known yet."""
        self.session = session
        self._members, self._waiting, self._lent = [], [], {}
        self.known.clear()

    def handlers(self) -> dict[str, Callable[[Any], None]]:
        """What a connection does with the host's notifications."""
        return {
            "_dragoman/presence": self._about(self._presence),
            "_dragoman/queue": self._about(self._queue),
            "_dragoman/turn": self._about(self._turn),
            "_dragoman/permission_resolved": self._about(self._resolved),
            "_dragoman/workspace": self._about(self._workspace),
            "_dragoman/terminal": self._about(self._terminal),
            "_dragoman/agent": self._about(self._agent),
            "_dragoman/closed": self._about(self._closed),
        }

    def _about(self, hear: Callable[[dict[str, Any]], None]) -> Callable[[Any], None]:
        def heard(params: Any) -> None:
            if isinstance(params, dict) and params.get("sessionId") == self.session:
                hear(params)
                self.changed()
                self.stirred()

        return heard

    def asked(self, params: Any) -> None:
        """A question came: what it is about, and what its answers are called."""
        call = params.tool_call
        title = call.title if isinstance(call.title, str) else ""
        self._asked = {call.tool_call_id: (title, {option.option_id: option.name for option in params.options})}

    def answered(self, params: Any) -> None:
        """The person here answered it, perhaps in another window of theirs than the one that was faster."""
        self._answered = str(params.tool_call.tool_call_id)

    # --- who is here --------------------------------------------------------------------------------------------

    def _presence(self, params: dict[str, Any]) -> None:
        given = params.get("members")
        members = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
        before, now = _names(self._members), _names(members)
        self._members = members
        if not self.known.is_set():
            self.known.set()
            if len(members) > 1:
                self._tell(f"here: {self.present()}", "dim")
            return
        for name in now:
            if now.count(name) > before.count(name) and (name != self.user or now.count(name) > 1):
                self._tell(f"{single(name)} came ({single(_role(members, name))})", "dim")
                break
        for name in dict.fromkeys(before):
            if before.count(name) > now.count(name):
                self._tell(f"{single(name)} left", "dim")

    def present(self) -> str:
        """Everybody who is here, with what they are and do."""
        return ", ".join(_shown(member) for member in self._members)

    async def can_answer(self) -> bool:
        """Whether somebody else is here who may answer questions."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TOLD):
                await self.known.wait()
        return sum(member.get("role") in ("editor", "admin") for member in self._members) > 1

    @property
    def status(self) -> str:
        """For the line at the bottom: the others, and how many prompts wait."""
        others = list(self._members)
        mine = [member for member in others if member.get("user") == self.user]
        if mine:  # one of them is we: the one that does what we do
            others.remove(next((member for member in mine if member.get("state") == self.state), mine[0]))
        parts = [_shown(member) for member in others[:NAMED]]
        if len(others) > NAMED:
            parts.append(f"{len(others) - NAMED} more")
        words = f"with {', '.join(parts)}" if parts else ""
        if self._waiting:
            words += f"{'; ' if words else ''}{len(self._waiting)} waiting"
        return words

    # --- what they do -------------------------------------------------------------------------------------------

    def _queue(self, params: dict[str, Any]) -> None:
        given = params.get("waiting")
        waiting = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
        known = {each.get("promptId") for each in self._waiting}
        for place, each in enumerate(waiting, 1):
            if each.get("promptId") not in known:
                preview = single(str(each.get("preview", "")))
                short = preview if len(preview) <= PREVIEW else f"{preview[:PREVIEW]}…"
                user = str(each.get("user", ""))
                tell = self._tell_own if user == self.user else self._tell
                tell(f"waiting, number {place}: {single(user)}: {short}", "dim")
        self._waiting = waiting

    def _turn(self, params: dict[str, Any]) -> None:
        state = params.get("state")
        if state == "yours":
            self.turn = str(params.get("turn", ""))
        # Who comes in the middle is told that a turn runs, perhaps after it has become their own.
        self.is_ours = state in ("yours", "running") and params.get("turn") == self.turn
        self.is_theirs = state in ("started", "running") and not self.is_ours
        if state in ("started", "running"):
            self.asker = str(params.get("by", ""))
        elif isinstance(error := params.get("error"), dict):
            turn, is_cut_off = str(params.get("turn", "")), error.get("kind") == INTERRUPTED
            if is_cut_off:
                self.cut_off = turn
            # Of one's own turn the prompt's answer tells, unless the host that would give it is gone.
            self._failure = str(error.get("message", ""))
            if is_cut_off or turn != self.turn:
                self._tell(f"the turn failed: {_last_words(self._failure)}", "yellow")

    def _agent(self, params: dict[str, Any]) -> None:
        """The agent died: in a turn, its failure has told that already."""
        message = str(params.get("message", "it is gone"))
        told, self._failure = self._failure, ""
        if params.get("state") == "exited" and message != told:
            self._tell(f"the agent ended: {_last_words(message)}", "yellow")

    def _resolved(self, params: dict[str, Any]) -> None:
        by, call = str(params.get("by", "")), str(params.get("toolCallId"))
        if not by or call == self._answered:
            return
        title, names = self._asked.get(call, ("", {}))
        about = f" ({single(title)})" if title else ""
        self.tell_decided(f"{single(by)} decided: {_decision(params, names)}{about}", "dim")

    def _workspace(self, params: dict[str, Any]) -> None:
        """Say whose files and terminals the agent uses, when they are not, or no longer, those it had before."""
        for what in ("files", "terminals"):
            whose = params.get(what)
            lender = self._lender(whose) if isinstance(whose, dict) else ""
            if lender != self._lent.get(what, ""):
                self._lent[what] = lender
                self._tell_own(f"{what}: {lender or 'those of the host'}", "dim")

    def _lender(self, whose: dict[str, Any]) -> str:
        user, program = str(whose.get("user", "")), single(str(whose.get("client") or ""))
        if self.lends and user == self.user:
            return f"yours, in {single(self.lends)}"
        return f"those of {single(user)}{f' ({program})' if program else ''}"

    def _terminal(self, params: dict[str, Any]) -> None:
        self.printed[str(params.get("terminalId", ""))] = str(params.get("output", ""))
        if len(self.printed) > PRINTED:
            del self.printed[next(iter(self.printed))]

    def _closed(self, params: dict[str, Any]) -> None:
        self._tell(single(str(params.get("reason", "the session was closed"))), "yellow")


def _decision(params: dict[str, Any], names: Mapping[str, str]) -> str:
    """What somebody answered, as far as it is told."""
    outcome = params.get("outcome")
    said = outcome.get("outcome") if isinstance(outcome, dict) else outcome
    option = str(outcome.get("optionId", "")) if isinstance(outcome, dict) else ""
    return single(names.get(option) or option or str(said or "something"))


def _last_words(message: str) -> str:
    """Why an agent is gone, and below it the end of what it wrote, where the cause is."""
    why, _, words = message.partition("; last words: ")
    lines = words.splitlines()[-LAST_WORDS:]
    return "\n".join([f"{single(why)}{'; it said:' if lines else ''}", *map(single, lines)])


def _names(members: list[dict[str, Any]]) -> list[str]:
    return [str(member.get("user", "")) for member in members]


def _role(members: list[dict[str, Any]], name: str) -> str:
    return next((str(member.get("role", "")) for member in members if member.get("user") == name), "")


def _shown(member: dict[str, Any]) -> str:
    state = member.get("state")
    doing = f", {state}" if state in ("typing", "idle", "away") else ""
    return f"{single(str(member.get('user', '')))} ({single(str(member.get('role', '')))}{doing})"
