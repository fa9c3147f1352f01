"""Config options: `Option` declares them, `with_value` is the one rule for new values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.session_table import option_from_value, parse_json, switch_as_select
from dragoman.dialect.side_data import side_data_of, with_side_data
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.config import ConfigCategory, ConfigChoice, ConfigType, SessionConfigOption

if TYPE_CHECKING:
    from dragoman.engine.connection import Connection

ChoiceSpec = str | tuple[str, str] | ConfigChoice  # a value; a value and its name; the whole choice
ChoiceSpecs = Sequence[ChoiceSpec] | Mapping[str, Sequence[ChoiceSpec]]  # a mapping: group name to choices


class Option:
    """Create config options: `Option.select("route", ["auto", "codex"])`."""

    @staticmethod
    def select(
        id: str,
        choices: ChoiceSpecs,
        current: str | None = None,
        *,
        name: str = "",
        description: str = "",
        category: str = "",
    ) -> SessionConfigOption:
        """Create a choice of one value; the first is the default. A mapping groups the choices."""
        made = _build_choices(id, choices)
        option = SessionConfigOption(
            id=id,
            name=name or _default_name(id),
            type=ConfigType.SELECT,
            current_value="",
            description=description or UNSET,
            category=category or UNSET,
            options=made,
        )
        if not option.values:
            raise ValueError(f"option {id!r} needs at least one choice")
        option.current_value = option.values[0].value if current is None else current
        return with_value(option, option.current_value)

    @staticmethod
    def switch(id: str, current: bool = False, *, name: str = "", description: str = "") -> SessionConfigOption:
        """Create a boolean option. Official clients without support for booleans get a choice of two."""
        if not isinstance(current, bool):
            raise TypeError(f"option {id!r} is True or False, not {current!r:.80}; for other values use Option.select")
        return SessionConfigOption(
            id=id,
            name=name or _default_name(id),
            type=ConfigType.BOOLEAN,
            current_value=current,
            description=description or UNSET,
        )

    @staticmethod
    def models(choices: ChoiceSpecs, current: str | None = None, *, description: str = "") -> SessionConfigOption:
        """Create an option of category model, which banjo clients see as `models`."""
        return Option.select("model", choices, current, description=description, category=ConfigCategory.MODEL)

    @staticmethod
    def auto_resume(current: str = "on") -> SessionConfigOption:
        """Create the option whether a new session continues the last one in its folder
        (docs/protocol/dialects.md#banjo-options). The library handles it.
        """
        return Option.select(
            "auto_resume", ["on", "off"], current, description="Continue the last session of this folder"
        )

    @staticmethod
    def json_value(id: str, current: Any, *, name: str = "", description: str = "") -> SessionConfigOption:
        """Create an option with any JSON value, as in the draft; other dialects see a choice with the current value."""
        option = with_side_data(option_from_value(id, current), value=current)
        return msgspec.structs.replace(option, name=name or _default_name(id), description=description or UNSET)  # type: ignore[no-any-return]


def _default_name(id: str) -> str:
    return id.replace("_", " ").capitalize()


def _build_choices(id: str, choices: ChoiceSpecs) -> list[ConfigChoice]:
    if isinstance(choices, str) or not isinstance(choices, Iterable):
        raise TypeError(f"the choices of option {id!r} are a list, not {choices!r:.80}; write: [{str(choices)!r:.80}]")
    if isinstance(choices, Mapping):
        return [
            ConfigChoice(group=group, name=group, options=_build_choices(id, inner)) for group, inner in choices.items()
        ]
    return [_build_choice(id, choice) for choice in choices]


def _build_choice(id: str, choice: ChoiceSpec) -> ConfigChoice:
    match choice:
        case ConfigChoice():
            return choice
        case str():
            return ConfigChoice(value=choice, name=choice)
        case (str(value), str(name)):
            return ConfigChoice(value=value, name=name)
    raise TypeError(f'a choice of option {id!r} is text, or a value and its name ("a", "A"), not {choice!r:.80}')


def value_of(option: SessionConfigOption) -> Any:
    """Return the value of an option."""
    return side_data_of(option).get("value", option.current_value)


def with_value(option: SessionConfigOption, value: Any, *, accepts_boolean_text: bool = False) -> SessionConfigOption:
    """Return the option with another value. Raise invalid_params if it does not take the value.

    With `accepts_boolean_text`, a boolean option takes "true" and "false" too.
    """
    if "value" in side_data_of(option):
        return _with_json_value(option, value)
    if option.form == "boolean":
        if accepts_boolean_text and value in ("true", "false"):
            value = value == "true"
        if not isinstance(value, bool):
            raise ProtocolError(Kind.INVALID_PARAMS, f"option {option.id!r} takes true or false")
    else:
        choices = [choice.value for choice in option.values]
        if value not in choices:
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"option {option.id!r} has no value {value!r}; available: {choices}"
            )
    return msgspec.structs.replace(option, current_value=value)


def _with_json_value(option: SessionConfigOption, value: Any) -> SessionConfigOption:
    # If the dialect sends only text, parse it as JSON unless the value before was text.
    if isinstance(value, str) and not isinstance(value_of(option), str):
        value = parse_json(value)
    changed = with_side_data(option_from_value(option.id, value), value=value)
    return msgspec.structs.replace(  # type: ignore[no-any-return]
        changed, name=option.name, category=option.category, description=option.description
    )


# Official clients must announce support for boolean options
# (docs/protocol/initialize.md#client-capabilities, docs/protocol/dialects.md#banjo-initialize).
SWITCH_CAPABILITY = "client.session.configOptions.boolean"


def supports_switches(connection: Connection) -> bool:
    """Tell whether a client supports boolean options."""
    return not connection.dialect.official or connection.offers(SWITCH_CAPABILITY)


def options_for_client(connection: Connection, options: Sequence[SessionConfigOption]) -> list[SessionConfigOption]:
    """Return options in the form that a client supports."""
    return list(options) if supports_switches(connection) else [*map(switch_as_select, options)]
