"""Modes, models and options of a session by the words that people type.

Takes a conversation and words, sets what they mean; a word that means nothing is refused with those that do. Above are
run's flags and the commands of a conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman import Conversation, Kind, ProtocolError
from dragoman.schema.config import ConfigCategory, SessionConfigOption

_SWITCH = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}


def modes(session: Conversation) -> list[tuple[str, str]]:
    """The agent's modes: ids and names."""
    return [(mode.id, mode.name) for mode in session.modes.available_modes] if session.modes else []


def model(session: Conversation) -> SessionConfigOption | None:
    """The option that chooses the model, if there is one."""
    options = session.options
    found = next((option for option in options if option.category == ConfigCategory.MODEL), None)
    return found or next((option for option in options if option.id == "model"), None)


def values(option: SessionConfigOption) -> list[tuple[str, str]]:
    """What an option can be set to: values and names."""
    if option.form == "boolean":
        return [("true", "on"), ("false", "off")]
    return [(choice.value or "", choice.name or "") for choice in option.values]


def current(option: SessionConfigOption) -> str:
    """What an option is set to, as people say it."""
    value = option.current_value
    if isinstance(value, bool):
        return "on" if value else "off"
    return next((name for known, name in values(option) if known == value and name), str(value))


async def set_mode(session: Conversation, word: str) -> str:
    """Put the agent into another mode of its own; gives the mode's name."""
    found = _meant(word, modes(session), "mode", "the agent has no modes")
    await session.set_mode(found[0])
    return found[1] or found[0]


async def set_model(session: Conversation, word: str) -> str:
    """Let another model answer; gives its name."""
    option = model(session)
    if option is None:
        raise _unknown("the agent does not let one choose the model")
    return await _set(session, option, word)


async def set_option(session: Conversation, id: str, word: str) -> str:
    """Set an option; gives what it is set to."""
    known = [(option.id, option.name) for option in session.options]
    found = _meant(id, known, "option", "the agent has no options")
    return await _set(session, next(each for each in session.options if each.id == found[0]), word)


async def _set(session: Conversation, option: SessionConfigOption, word: str) -> str:
    if option.form == "boolean":
        if word.lower() not in _SWITCH:
            raise _unknown(f"{option.id} is on or off")
        value: Any = _SWITCH[word.lower()]
        await session.set_option(option.id, value)
        return "on" if value else "off"
    found = _meant(word, values(option), option.id, f"{option.id} has no values")
    await session.set_option(option.id, found[0])
    return found[1] or found[0]


def _meant(word: str, known: Iterable[tuple[str, str]], what: str, none: str) -> tuple[str, str]:
    """The entry of this id, or else of this name, however it is capitalised."""
    entries = list(known)
    for part in (0, 1):
        for entry in entries:
            if entry[part] == word or (entry[part].lower() == word.lower() and word):
                return entry
    if not entries:
        raise _unknown(none)
    raise _unknown(f"there is no {what} {word!r}; there are: {', '.join(id for id, _ in entries)}")


def _unknown(what: str) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, what)
