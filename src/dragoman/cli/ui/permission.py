"""Leave on a terminal: a guard decides by the user's policy, and the person is asked where policy says so.

The one way in which commands answer what agents ask. Takes a sheet and perhaps a person; `permission` and `lending` go
to connect, `attend` follows. Shows questions and refusals; what is decided, remembered and audited is the guard's.
Above are run, demo and whatever else talks with agents on a terminal.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from io import TextIOWrapper
from typing import Any, NamedTuple

from msgspec import UNSET

from dragoman import ClientTurn, RemoteAgent
from dragoman.cli.ui.diff import COMPARED, changed
from dragoman.cli.ui.key_prompt import Choice as Shown
from dragoman.cli.ui.key_prompt import Person
from dragoman.cli.ui.terminal import Line, Sheet, single
from dragoman.config.paths import Places
from dragoman.config.private_files import open_regular
from dragoman.policy.decide import Policy
from dragoman.policy.decision import ALLOW, ASK, DENY, Decision, Source
from dragoman.policy.grants import SCOPES, Scope
from dragoman.policy.permission_options import choose
from dragoman.policy.question import ON_FILES, Operation, Question
from dragoman.policy.redaction import from_environment
from dragoman.policy.rules import Rule, RuleFile
from dragoman.roles.client.permission.guard import NOBODY, Guard
from dragoman.roles.client.permission.prompt import INTERACTIVE, UNREMEMBERED, Asked, Choice, elsewhere, thing
from dragoman.schema.permission import PermissionOption
from dragoman.schema.toolcall import Diff


class Key(NamedTuple):
    """One key: how it is shown, and the answer it gives."""

    shown: Shown
    choice: Choice


# Scope -> key and meaning.
_YES: dict[str, tuple[str, str]] = {
    Scope.ONCE: ("y", "yes, this once"),
    Scope.SESSION: ("s", "yes, for this session"),
    Scope.WORKSPACE: ("w", "yes, always in this folder"),
    Scope.ALWAYS: ("a", "yes, always and everywhere"),
}


# Agents that can only be told yes are told "cancelled", after which most end their turn (peers.md 42).
_CLOSING = "no; the agent offers no way to say so, and is told that the turn is cancelled"


def keys(asked: Asked, scopes: Sequence[str]) -> list[Key]:
    """The keys that answer a question, in the order in which they are shown."""
    options = asked.options
    wanted = scopes if asked.can_be_remembered else (Scope.ONCE,)
    found: list[Key] = []
    said: set[str] = set()  # the options that our keys say
    for scope in wanted:
        option = choose(options, ALLOW, scope)
        if options and option is None:
            continue
        # What the agent calls it is shown where it is told exactly that: beside "once", it would mislead.
        name = "" if option is None or option in said else _name(options, option)
        key, meaning = _YES[scope]
        found.append(Key(Shown(key, meaning, key, name), Choice(ALLOW, scope)))
        said |= {option} if option is not None else set()
    refusal = choose(options, DENY)
    meaning = "no" if refusal is not None or not options else _CLOSING
    found.append(Key(Shown("n", meaning, "n", _name(options, refusal)), Choice(DENY)))
    said |= {refusal} if refusal is not None else set()
    for number, each in enumerate(options, 1):
        if each.option_id not in said:
            shown = Shown(str(number), _MEANINGS.get(each.kind, "choose"), str(number), each.name)
            found.append(Key(shown, Choice(option_id=each.option_id)))
    return found


_MEANINGS = {
    "allow_once": "yes, this once",
    "allow_always": "yes, always in this folder",
    "reject_once": "no",
    "reject_always": "no, never in this folder",
}


def _name(options: Sequence[PermissionOption], option_id: str | None) -> str:
    return next((option.name for option in options if option.option_id == option_id), "")


# A question that fills several screens is not read; what is left out is counted.
SHOWN = 60

# Who comes into a session is greeted and told what was said before they are asked what is open in it. Seconds.
WELCOME = 10.0

# What is wanted, in one word before it.
WORDS: dict[str, str] = {
    Operation.FILE_READ: "read",
    Operation.FILE_WRITE: "write",
    Operation.FILE_DELETE: "delete",
    Operation.TERMINAL_EXECUTE: "command",
    Operation.NETWORK_ACCESS: "address",
    Operation.MCP_TOOL: "tool",
    Operation.MCP_START: "server",
    Operation.SWITCH_MODE: "mode",
    Operation.OTHER: "something else",
}

# The use of something lent, as one says it.
USES = {**WORDS, Operation.TERMINAL_EXECUTE: "execute"}

# What a host asks, it asks because its policy says so.
EVERYTHING = RuleFile(name="the host", rules=(Rule(verdict=ASK, reason="the host asks those who are here"),))

UNCONFINED = "  once it runs, it can do whatever you can"


class Leave:
    """Gives and refuses leave during one conversation.

    With `places`, by the user's own policy, grants and audit (ConfigFault when they cannot be used); without, by the
    table of modes alone, and nothing is kept. `policy` is a file in place of the user's own, `yes` answers whatever
    would be asked; `asks`: a host has decided by its policy already, and whatever it asks is for the person. `options`
    are those of Lending.
    """

    def __init__(
        self,
        sheet: Sheet,
        person: Person | None,
        *,
        cwd: str,
        yes: bool = False,
        places: Places | None = None,
        policy: str | None = None,
        mode: str | None = None,
        sandboxed: bool = False,
        asks: bool = False,
        **options: Any,
    ) -> None:
        self.turn: ClientTurn | None = None
        self.refused = 0  # what the person did not refuse, but nobody or policy did
        self.shown: set[tuple[str, str]] = set()  # changes that a question showed: path and new text
        self._sheet = sheet
        self._person = person
        self._cwd = cwd
        self._yes = yes
        self._sandboxed = sandboxed
        self._asks = asks
        self._scopes = SCOPES if places is not None else SCOPES[:2]
        self._one_at_a_time = asyncio.Lock()
        self.is_welcome = asyncio.Event()  # cleared while the person is not yet told where they are
        self.is_welcome.set()
        self._settled = asyncio.Event()
        self._settled.set()
        ask = self._ask if yes or person is not None else None
        told: dict[str, Any] = {"ask": ask, "told": self._tell, "mode": mode}
        if places is not None:
            self.guard = Guard.of_user(places, policy=policy, roots=[cwd], **told)
        else:
            policy_here = Policy(files=(EVERYTHING,)) if asks else Policy()
            self.guard = Guard(policy_here, secrets=from_environment(os.environ), **told)
        sheet.clean = self.guard.redaction.known
        self.permission = self.guard.ask
        self.lending = self.guard.lend(**options)

    def attend(self, agent: RemoteAgent, command: str = "") -> None:
        """The agent is there; one that does not say its name is known by its command."""
        self.guard.attend(agent, os.path.basename(command))

    async def close(self) -> None:
        """The conversation is over: what was allowed for its sessions is forgotten."""
        await self.guard.close()

    def clean(self, text: str) -> str:
        """Text without secrets, known ones and what looks like one: for faults and for what agents write to stderr."""
        return self.guard.redaction.text(text)

    # --- the turn ---------------------------------------------------------------------------------------------

    def begin(self, turn: ClientTurn) -> None:
        """A turn begins: its questions are shown after what it said before them."""
        self.turn = turn

    def end(self) -> None:
        """The turn is over."""
        self.shown.clear()
        self.turn = None

    @property
    def is_mute(self) -> bool:
        """Whether there is nobody here to ask."""
        return self._person is None and not self._yes

    @property
    def is_asking(self) -> bool:
        """Whether a question stands on the terminal; nothing else may be written meanwhile."""
        return not self._settled.is_set()

    async def settled(self) -> None:
        """Wait until no question is open."""
        await self._settled.wait()

    def dismiss(self) -> None:
        """The turn is being cancelled: close the open question."""
        if self._person is not None:
            self._person.dismiss()

    @asynccontextmanager
    async def question(self) -> AsyncIterator[bool]:
        """The terminal for one question, after all that was said before it; whether it is still wanted."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WELCOME):
                await self.is_welcome.wait()
        async with self._one_at_a_time:
            if self.turn is not None:
                await self.turn.caught_up()
                if self.turn.cancelled:
                    yield False
                    return
            self._settled.clear()
            try:
                yield True
            finally:
                self._settled.set()

    # --- asking -----------------------------------------------------------------------------------------------

    async def _ask(self, asked: Asked) -> Choice | None:
        """The guard's question to the person; None when the turn was cancelled meanwhile."""
        if self._yes:
            return said_yes(asked)
        assert self._person is not None
        lines = self._described(asked) if asked.call is not None else await asyncio.to_thread(self._wanted, asked)
        offered = keys(asked, self._scopes)
        async with self.question() as is_wanted:
            if not is_wanted:
                return None
            typed = await self._person.choose(lines, [key.shown for key in offered])
        if typed is None:  # who closes the terminal gives no leave; only a cancelled turn is answered as one
            return None if self.turn is not None and self.turn.cancelled else Choice(DENY, UNREMEMBERED)
        return next(key.choice for key in offered if key.shown.value == typed)

    def _tell(self, asked: Asked, decision: Decision) -> None:
        """Refusals that the person did not give are said."""
        if decision.allows or decision.source in (Source.USER, Source.CANCELLED):
            return
        self.refused += 1
        if asked.call is not None:
            what = single(asked.call.title or asked.call.name or "a tool call")
        else:
            first = asked.questions[0]
            what = f"{USES.get(first.operation, first.operation)} {self._short(thing(first))}"
        if decision.source == Source.NOBODY:
            why = "the host asks" if self._asks else decision.reason.removesuffix(f"; {NOBODY}")
            words = f"refused, for {NOBODY}: {what} ({single(why)}; --yes allows it)"
        else:
            words = f"refused: {what} ({single(decision.reason)})"
        self._sheet.line(self.clean(words), "red")

    # --- showing ----------------------------------------------------------------------------------------------

    def _described(self, asked: Asked) -> list[Line]:
        """Title, commands, files and changes; never only the title, which may say anything."""
        call = asked.call
        lines = [
            Line("The agent asks for leave:", "ask"),
            Line(single(call.title or call.name or "a tool call"), "bold"),
        ]
        if asked.reason:
            lines.append(Line(f'  it says: "{single(asked.reason)}"'))
        lines += self._things(asked.questions)
        changes = [block for block in call.content if isinstance(block, Diff)]
        for change in changes:
            if len(changes) > 1:
                lines.append(Line(f"{self._short(change.path)}:", "dim"))
            lines += changed(change.old_text if change.old_text is not UNSET else None, change.new_text, SHOWN)
            self.shown.add((change.path, change.new_text))
        return lines + self._why(asked)

    def _wanted(self, asked: Asked) -> list[Line]:
        """What a use of the lent things will do, in lines."""
        question = asked.questions[0]
        lines = [
            Line(f"The agent wants to {USES.get(question.operation, question.operation)}:", "ask"),
            Line(self._place(question), "bold"),
        ]
        if elsewhere(question):
            lines.append(Line(f"  in the folder {self._short(question.cwd)}"))
        lines += [Line(f"  with {single(name)}={single(value)}") for name, value in asked.env.items()]
        if asked.interactive:
            lines.append(Line(f"  {INTERACTIVE}"))
        if question.operation == Operation.FILE_WRITE and asked.text is not None:
            lines += changed(_current(question.resource), asked.text, SHOWN)
            self.shown.add((question.resource, asked.text))
        return lines + self._why(asked)

    def _things(self, questions: tuple[Question, ...]) -> list[Line]:
        said = [(each, self._place(each)) for each in questions]
        # A title that says nothing more than the line above is not said twice.
        return [
            Line(f"  {WORDS.get(each.operation, each.operation)}: {place}{self._where(each)}")
            for each, place in said
            if each.resource or each.tool or each.server
        ]

    def _where(self, question: Question) -> str:
        """In which folder a command starts, where that is not the session's own."""
        return f" (in the folder {self._short(question.cwd)})" if elsewhere(question) else ""

    def _why(self, asked: Asked) -> list[Line]:
        """What the person should know besides: that a command is not confined, and which rule asks."""
        lines = []
        if not self._sandboxed and any(each.operation == Operation.TERMINAL_EXECUTE for each in asked.questions):
            lines.append(Line(UNCONFINED, "dim"))
        if asked.decision.source != Source.MODE and not self._asks:
            lines.append(Line(f"  asked because: {single(asked.decision.reason)}", "dim"))
        return lines

    def _place(self, question: Question) -> str:
        """What it is about; a path as the agent named it, and where it really leads if that is elsewhere."""
        if question.operation in ON_FILES and question.named:
            return f"{self._short(question.named)} (really {single(question.resource)})"
        return self._short(thing(question))

    def _short(self, path: str) -> str:
        for folder in (self._cwd, os.path.realpath(self._cwd)):
            path = path.removeprefix(folder.rstrip("/") + "/")
        return single(path)


def said_yes(asked: Asked) -> Choice:
    """--yes: leave for this once; an agent that offers no such option gets the one that lasts, and we forget it."""
    why = "--yes was given"
    if not asked.options or choose(asked.options, ALLOW) is not None:
        return Choice(ALLOW, Scope.ONCE, why=why)
    lasting = next((option for option in asked.options if option.kind.startswith("allow")), None)
    option_id = lasting.option_id if lasting is not None else None
    return Choice(ALLOW, UNREMEMBERED, option_id, why=why)


def _current(path: str) -> str | None:
    """What a file holds now, as far as it can be compared."""
    try:
        with TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace", newline="") as file:
            return file.read(COMPARED + 1)
    except OSError:
        return None
