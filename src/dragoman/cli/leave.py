"""Who decides what an agent may do here: reading is free, the rest is asked, refused or allowed.

Answers both kinds of questions that reach a client (session/request_permission, and the use of what is lent) out of
one ledger, so that nobody is asked twice for one thing. Above are run and demo; below are the ledger and the person.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from msgspec import UNSET

from dragoman import ClientTurn, Question
from dragoman.cli.approvals import (
    EXECUTE,
    HARMLESS,
    LOOKING,
    READ,
    WRITE,
    Approvals,
    Operation,
    commands,
    operations,
    paths,
)
from dragoman.cli.approvals import command_line as as_line
from dragoman.cli.changes import COMPARED, changed
from dragoman.cli.questions import Choice, Person
from dragoman.cli.terminal import Line, Sheet, single
from dragoman.roles.client import choose
from dragoman.schema.permission import PermissionOption, RequestPermissionParams
from dragoman.schema.toolcall import Diff
from dragoman.session.toolcall import merge

# A question that fills several screens is not read; what is left out is counted.
SHOWN = 60

_KEYS = {
    "allow_once": ("y", "allow once"),
    "allow_always": ("a", "always allow"),
    "reject_once": ("n", "reject"),
    "reject_always": ("d", "always reject"),
}


class Leave:
    """Gives and refuses leave during one conversation."""

    def __init__(self, sheet: Sheet, person: Person | None, *, cwd: str, yes: bool = False) -> None:
        self.turn: ClientTurn | None = None
        self.shown: set[tuple[str, str]] = set()  # changes that a question showed: path and new text
        self._sheet = sheet
        self._person = person
        self._cwd = cwd
        self._yes = yes
        self._approvals = Approvals()
        self._one_at_a_time = asyncio.Lock()
        self._settled = asyncio.Event()
        self._settled.set()

    def begin(self, turn: ClientTurn) -> None:
        """A turn begins: its questions are shown after what it said before them."""
        self.turn = turn

    def end(self) -> None:
        """The turn is over, and so is every answer given in it."""
        if self.turn is not None:
            self._approvals.forget(self.turn.session.id)
            self.shown.clear()
            self.turn = None

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

    # --- the two kinds of questions ---------------------------------------------------------------------------

    async def permission(self, params: RequestPermissionParams) -> str | None:
        """session/request_permission: the id of the chosen option, None for none."""
        call = self._picture(params)
        wanted = operations(call, self._resolve)
        if self._yes or self._is_harmless(call, wanted):
            return choose(params, "allow")
        if self._person is None:
            self._refuse(call.title or "a tool call")
            self._approvals.note(params.session_id, wanted, False)
            return choose(params, "deny")
        choices = [_choice(option, number) for number, option in enumerate(params.options, 1)]
        chosen = await self._ask(self._described(call), _distinct(choices))
        kind = next((option.kind for option in params.options if option.option_id == chosen), "")
        if chosen is not None:
            allowed, lasting = kind.startswith("allow"), kind.endswith("always")
            self._approvals.note(params.session_id, wanted, allowed, lasting=lasting)
        return chosen

    async def approve(self, question: Question) -> bool:
        """The use of a file or a terminal that is lent."""
        if question.operation == READ or self._yes:
            return True  # what is lent is inside the working directory
        resource = as_line(question.resource) if question.operation == EXECUTE else question.resource
        if set(question.env) <= HARMLESS:
            known = self._approvals.recall(question.session_id, Operation(question.operation, resource))
            if known is not None:
                return known
        if self._person is None:
            self._refuse(f"{question.operation} {self._short(question.resource)}")
            return False
        lines = await asyncio.to_thread(self._wanted, question)
        return await self._ask(lines, (Choice("y", "yes", "yes"), Choice("n", "no", "no"))) == "yes"

    # --- deciding ---------------------------------------------------------------------------------------------

    def _is_harmless(self, call: Any, wanted: list[Operation]) -> bool:
        """Looking at files inside the working directory needs nobody's leave."""
        inside = self._resolve(self._cwd).rstrip("/") + "/"
        return (
            call.kind in LOOKING
            and bool(wanted)
            and all(name == READ and (resource + "/").startswith(inside) for name, resource in wanted)
        )

    def _refuse(self, what: str) -> None:
        self._sheet.line(f"refused, for there is nobody to ask: {single(what)} (--yes allows it)", "red")

    async def _ask(self, lines: list[Line], choices: tuple[Choice, ...]) -> str | None:
        assert self._person is not None
        async with self._one_at_a_time:
            if self.turn is not None:
                await self.turn.caught_up()
                if self.turn.cancelled:
                    return None
            self._settled.clear()
            try:
                return await self._person.choose(lines, choices)
            finally:
                self._settled.set()

    # --- showing ----------------------------------------------------------------------------------------------

    def _picture(self, params: RequestPermissionParams) -> Any:
        """The tool call with all that was told of it before."""
        session = self.turn.session if self.turn is not None else None
        known = session.tool_calls.get(params.tool_call.tool_call_id) if session is not None else None
        return known or merge(None, params.tool_call)

    def _described(self, call: Any) -> list[Line]:
        """Title, command, files and changes; never only the title, which may say anything."""
        lines = [
            Line("The agent asks for leave:", "ask"),
            Line(single(call.title or call.name or "a tool call"), "bold"),
        ]
        lines += [Line(f"  command: {single(line)}") for line in commands(call)]
        lines += [Line(f"  file: {self._place(path)}") for path in paths(call)]
        changes = [block for block in call.content if isinstance(block, Diff)]
        for change in changes:
            if len(changes) > 1:
                lines.append(Line(f"{self._short(change.path)}:", "dim"))
            lines += changed(change.old_text if change.old_text is not UNSET else None, change.new_text, SHOWN)
            self.shown.add((change.path, change.new_text))
        return lines

    def _wanted(self, question: Question) -> list[Line]:
        """What a use of the lent things will do, in lines."""
        title = f"The agent wants to {question.operation}:"
        lines = [Line(title, "ask"), Line(self._short(question.resource), "bold")]
        lines += [Line(f"  with {name}={value}") for name, value in question.env.items()]
        if question.operation == WRITE and question.text is not None:
            lines += changed(_current(question.resource), question.text, SHOWN)
            self.shown.add((question.resource, question.text))
        return lines

    def _resolve(self, path: str) -> str:
        try:
            return os.path.realpath(os.path.join(self._cwd, path))
        except (OSError, ValueError):
            return path

    def _place(self, path: str) -> str:
        """A path as the agent named it, and where it really leads if that is elsewhere."""
        real = self._resolve(path)
        if real == self._resolve(self._cwd) + os.sep + self._short(path) or real == path:
            return self._short(path)
        return f"{self._short(path)} (really {single(real)})"

    def _short(self, path: str) -> str:
        for folder in (self._cwd, self._resolve(self._cwd)):
            path = path.removeprefix(folder.rstrip("/") + "/")
        return single(path)


def _current(path: str) -> str | None:
    """What a file holds now, as far as it can be compared."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            return file.read(COMPARED + 1)
    except OSError:
        return None


def _choice(option: PermissionOption, number: int) -> Choice:
    key, meaning = _KEYS.get(option.kind, (str(number), "choose"))
    return Choice(key, meaning, option.option_id, option.name)


def _distinct(choices: list[Choice]) -> tuple[Choice, ...]:
    """Two options of one kind cannot have one key: the later ones get their number."""
    seen: set[str] = set()
    distinct = []
    for number, choice in enumerate(choices, 1):
        distinct.append(choice._replace(key=str(number)) if choice.key in seen else choice)
        seen.add(choice.key)
    return tuple(distinct)
