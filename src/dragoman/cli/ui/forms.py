"""Forms and links that an agent puts before the person: shown like every question, filled in field by field.

Takes what the protocol asks (elicitation), gives the values, a yes, a no, or nothing. A link is shown whole and opened
by nobody but the person. Below are leave, for its turn at the terminal, and the person.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.cli.ui.key_prompt import Choice, Person
from dragoman.cli.ui.permission import Leave
from dragoman.cli.ui.terminal import MARK, Line, Sheet, single
from dragoman.schema.elicitation import (
    BooleanProperty,
    CreateElicitationParams,
    ElicitationMode,
    IntegerProperty,
    MultiSelectProperty,
    NumberProperty,
    StringProperty,
)

# Choices that have a key of their own; more are typed.
KEYS = 9

# The longest name of a field, in characters, so that there is room to type behind it.
LABEL = 50


class Facts:
    """Asks the person of one conversation."""

    def __init__(self, leave: Leave, person: Person, sheet: Sheet) -> None:
        self._leave = leave
        self._person = person
        self._sheet = sheet

    async def __call__(self, params: CreateElicitationParams) -> dict[str, Any] | bool | None:
        """The values of a form, True for a link that was followed, False for no, None for no answer."""
        async with self._leave.question() as is_wanted:
            if not is_wanted:
                return None
            async with self._person.attention():
                return await (self._form(params) if params.mode == ElicitationMode.FORM else self._link(params))

    async def _link(self, params: CreateElicitationParams) -> bool | None:
        lines = [
            Line("The agent wants you to follow a link:", "ask"),
            Line(single(params.message), "bold"),
            Line(f"  {single(params.url or '')}"),
        ]
        return await self._agreed(lines, "yes, I have it open", "no")

    async def _form(self, params: CreateElicitationParams) -> dict[str, Any] | bool | None:
        schema = params.requested_schema or None
        fields = dict(schema.properties or {}) if schema is not None else {}
        required = set(schema.required or ()) if schema is not None else set()
        lines = [Line("The agent asks you:", "ask"), Line(single(params.message), "bold")]
        lines += [
            Line(f"  {_label(name, field)}{'' if name in required else ' (optional)'}")
            for name, field in fields.items()
        ]
        agreed = await self._agreed(lines, "answer it", "decline")
        if not agreed:
            return agreed
        values: dict[str, Any] = {}
        for name, field in fields.items():
            value = await self._value(name, field, name in required)
            if value is None and name in required:
                return None
            if value is not None:
                values[name] = value
        return values

    async def _agreed(self, lines: list[Line], yes: str, no: str) -> bool | None:
        typed = await self._person.choose(lines, (Choice("y", yes, "y"), Choice("n", no, "n")))
        return None if typed is None else typed == "y"

    async def _value(self, name: str, field: Any, is_required: bool) -> Any:
        """The value of one field; None for none."""
        label = _label(name, field)
        if isinstance(field, BooleanProperty):
            typed = await self._person.choose([Line(label)], (Choice("y", "yes", "y"), Choice("n", "no", "n")))
            return None if typed is None else typed == "y"
        known = _values(field)
        if isinstance(field, StringProperty) and 0 < len(known) <= KEYS:
            choices = [Choice(str(number), single(title), value) for number, (value, title) in enumerate(known, 1)]
            return await self._person.choose([Line(label)], choices)
        default = getattr(field, "default", None)
        hint = f" [{single(str(default))}]" if default else ""
        while True:
            text = await self._person.read(f"{MARK} {label}{hint}: ")
            if text is None:
                return None
            if not text.strip():
                if default or not is_required:
                    return default or None
                continue
            try:
                return _read(field, text.strip(), [value for value, _ in known])
            except ValueError as error:
                self._sheet.mark([Line(str(error), "yellow")])


def _label(name: str, field: Any) -> str:
    title = single(getattr(field, "title", None) or name)
    about = single(getattr(field, "description", None) or "")
    # It stands on the line where the person types, which must stay one line of ours.
    return (f"{title} ({about})" if about else title).replace(MARK, "|")[:LABEL]


def _values(field: Any) -> list[tuple[str, str]]:
    """What can be chosen: values and titles."""
    source = field.items if isinstance(field, MultiSelectProperty) else field
    titled = getattr(source, "one_of", None) or getattr(source, "any_of", None)
    if titled:
        return [(option.const, option.title) for option in titled]
    return [(value, value) for value in getattr(source, "enum", None) or ()]


def _read(field: Any, text: str, known: Sequence[str]) -> Any:
    """A typed text as the field wants it; ValueError says how."""
    if isinstance(field, IntegerProperty | NumberProperty):
        is_whole = isinstance(field, IntegerProperty)
        try:
            number = int(text) if is_whole else float(text)
        except ValueError:
            raise ValueError("a whole number, please" if is_whole else "a number, please") from None
        if (field.minimum and number < field.minimum) or (field.maximum and number > field.maximum):
            raise ValueError(f"between {field.minimum or 'any'} and {field.maximum or 'any'}, please")
        return number
    if isinstance(field, MultiSelectProperty):
        chosen = [word.strip() for word in text.split(",")]
        if known and not set(chosen) <= set(known):
            raise ValueError(f"some of these, with commas between: {', '.join(map(single, known))}")
        return chosen
    if known and text not in known:
        raise ValueError(f"one of these: {', '.join(map(single, known))}")
    return text
