"""Elicitation on a terminal: forms and links from an agent, shown like every question and filled in field by field.

Returns the values, True or False, or None. A link is shown in full; only the user opens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.cli.ui.key_prompt import KeyChoice, Prompter
from dragoman.cli.ui.permission import PermissionUI
from dragoman.cli.ui.terminal import QUESTION_BAR, StyledLine, sanitize_line
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
MAX_KEY_CHOICES = 9

# The longest field label in characters, so that there is room to type after it.
MAX_LABEL = 50


class FormPrompt:
    """Asks the user of one session."""

    def __init__(self, permission_ui: PermissionUI, prompter: Prompter) -> None:
        self._permission_ui = permission_ui
        self._prompter = prompter

    async def __call__(self, params: CreateElicitationParams) -> dict[str, Any] | bool | None:
        """Return the values of a form, True for a link that was opened, False for no, None for no answer."""
        async with self._permission_ui.open_question() as is_wanted:
            if not is_wanted:
                return None
            async with self._prompter.hold_terminal():
                return await (self._ask_form(params) if params.mode == ElicitationMode.FORM else self._ask_link(params))

    async def _ask_link(self, params: CreateElicitationParams) -> bool | None:
        lines = [
            StyledLine("The agent asks you to open a link:", "ask"),
            StyledLine(sanitize_line(params.message), "bold"),
            StyledLine(f"  {sanitize_line(params.url or '')}"),
        ]
        return await self._confirm(lines, "yes, I opened it", "no")

    async def _ask_form(self, params: CreateElicitationParams) -> dict[str, Any] | bool | None:
        schema = params.requested_schema or None
        fields = dict(schema.properties or {}) if schema is not None else {}
        required = set(schema.required or ()) if schema is not None else set()
        lines = [StyledLine("The agent asks you:", "ask"), StyledLine(sanitize_line(params.message), "bold")]
        lines += [
            StyledLine(f"  {_field_label(name, field)}{'' if name in required else ' (optional)'}")
            for name, field in fields.items()
        ]
        agreed = await self._confirm(lines, "answer", "decline")
        if not agreed:
            return agreed
        values: dict[str, Any] = {}
        for name, field in fields.items():
            value = await self._ask_value(name, field, name in required)
            if value is None and name in required:
                return None
            if value is not None:
                values[name] = value
        return values

    async def _confirm(self, lines: list[StyledLine], yes: str, no: str) -> bool | None:
        typed = await self._prompter.choose(lines, (KeyChoice("y", yes, "y"), KeyChoice("n", no, "n")))
        return None if typed is None else typed == "y"

    async def _ask_value(self, name: str, field: Any, is_required: bool) -> Any:
        """Return the value of one field, or None."""
        label = _field_label(name, field)
        if isinstance(field, BooleanProperty):
            typed = await self._prompter.choose(
                [StyledLine(label)], (KeyChoice("y", "yes", "y"), KeyChoice("n", "no", "n"))
            )
            return None if typed is None else typed == "y"
        known = _field_choices(field)
        if isinstance(field, StringProperty) and 0 < len(known) <= MAX_KEY_CHOICES:
            choices = [
                KeyChoice(str(number), sanitize_line(title), value) for number, (value, title) in enumerate(known, 1)
            ]
            return await self._prompter.choose([StyledLine(label)], choices)
        default = getattr(field, "default", None)
        hint = f" [{sanitize_line(str(default))}]" if default else ""
        note = ""  # what was wrong with the answer before
        while True:
            text = await self._prompter.read(f"{QUESTION_BAR} {label}{hint}: ", note=note)
            if text is None:
                return None
            if not text.strip():
                if default or not is_required:
                    return default or None
                note = f"this is required; {self._prompter.way_out}"
                continue
            try:
                return _parse_value(field, text.strip(), [value for value, _ in known])
            except ValueError as error:
                note = str(error)


def _field_label(name: str, field: Any) -> str:
    title = sanitize_line(getattr(field, "title", None) or name)
    about = sanitize_line(getattr(field, "description", None) or "")
    # It is on the line where the user types, which must stay one line of ours.
    return (f"{title} ({about})" if about else title).replace(QUESTION_BAR, "|")[:MAX_LABEL]


def _field_choices(field: Any) -> list[tuple[str, str]]:
    """Return what can be chosen: values and titles."""
    source = field.items if isinstance(field, MultiSelectProperty) else field
    titled = getattr(source, "one_of", None) or getattr(source, "any_of", None)
    if titled:
        return [(option.const, option.title) for option in titled]
    return [(value, value) for value in getattr(source, "enum", None) or ()]


def _parse_value(field: Any, text: str, choices: Sequence[str]) -> Any:
    """Convert typed text to the type of the field; ValueError says what is expected."""
    if isinstance(field, IntegerProperty | NumberProperty):
        is_whole = isinstance(field, IntegerProperty)
        try:
            number = int(text) if is_whole else float(text)
        except ValueError:
            raise ValueError("type a whole number" if is_whole else "type a number") from None
        if (field.minimum and number < field.minimum) or (field.maximum and number > field.maximum):
            raise ValueError(f"type a number between {field.minimum or 'any'} and {field.maximum or 'any'}")
        return number
    if isinstance(field, MultiSelectProperty):
        chosen = [word.strip() for word in text.split(",")]
        if choices and not set(chosen) <= set(choices):
            raise ValueError(f"type some of these, separated by commas: {', '.join(map(sanitize_line, choices))}")
        return chosen
    if choices and text not in choices:
        raise ValueError(f"type one of these: {', '.join(map(sanitize_line, choices))}")
    return text
