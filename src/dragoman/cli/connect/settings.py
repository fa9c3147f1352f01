"""Set mode, model and options of a session by what the user types; an unknown name is refused with a list of the known
ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman import ClientSession, Kind, ProtocolError
from dragoman.schema.config import ConfigCategory, SessionConfigOption

_BOOLEAN_WORDS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}


def available_modes(session: ClientSession) -> list[tuple[str, str]]:
    """Return the agent's modes: ids and names."""
    return [(mode.id, mode.name) for mode in session.modes.available_modes] if session.modes else []


def model_option(session: ClientSession) -> SessionConfigOption | None:
    """Return the option that selects the model, or None."""
    options = session.options
    found = next((option for option in options if option.category == ConfigCategory.MODEL), None)
    return found or next((option for option in options if option.id == "model"), None)


def option_values(option: SessionConfigOption) -> list[tuple[str, str]]:
    """Return what an option can be set to: values and names."""
    if option.form == "boolean":
        return [("true", "on"), ("false", "off")]
    return [(choice.value or "", choice.name or "") for choice in option.values]


def current_value_text(option: SessionConfigOption) -> str:
    """Return the current value of an option as text."""
    value = option.current_value
    if isinstance(value, bool):
        return "on" if value else "off"
    return next((name for known, name in option_values(option) if known == value and name), str(value))


async def set_mode(session: ClientSession, name: str) -> str:
    """Set the agent's mode; return its name."""
    found = _find_entry(name, available_modes(session), "mode", "the agent has no modes")
    await session.set_mode(found[0])
    return found[1] or found[0]


async def set_model(session: ClientSession, name: str) -> str:
    """Set the model; return its name."""
    option = model_option(session)
    if option is None:
        raise _invalid_params("the agent does not offer a choice of models")
    return await _set_value(session, option, name)


async def set_option(session: ClientSession, id: str, value_name: str) -> str:
    """Set an option; return its value as text."""
    known = [(option.id, option.name) for option in session.options]
    found = _find_entry(id, known, "option", "the agent has no options")
    return await _set_value(session, next(each for each in session.options if each.id == found[0]), value_name)


async def _set_value(session: ClientSession, option: SessionConfigOption, value_name: str) -> str:
    if option.form == "boolean":
        if value_name.lower() not in _BOOLEAN_WORDS:
            raise _invalid_params(f"{option.id} must be on or off")
        value: Any = _BOOLEAN_WORDS[value_name.lower()]
        await session.set_option(option.id, value)
        return "on" if value else "off"
    found = _find_entry(value_name, option_values(option), option.id, f"{option.id} has no values")
    await session.set_option(option.id, found[0])
    return found[1] or found[0]


def _find_entry(name: str, choices: Iterable[tuple[str, str]], what: str, empty_text: str) -> tuple[str, str]:
    """Return the entry with this id, or else with this name; case does not matter."""
    entries = list(choices)
    for part in (0, 1):
        for entry in entries:
            if entry[part] == name or (entry[part].lower() == name.lower() and name):
                return entry
    if not entries:
        raise _invalid_params(empty_text)
    raise _invalid_params(f"there is no {what} {name!r}; choose one of: {', '.join(id for id, _ in entries)}")


def _invalid_params(message: str) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, message)
