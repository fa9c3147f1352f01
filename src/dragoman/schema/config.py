"""Modes and config options of a session, and the calls that set them (docs/protocol/sessions.md#modes).

An option is one Struct whatever its type, and so is a choice: a value or a group of values. `form` tells them apart.
"""

from __future__ import annotations

from typing import Any

from dragoman.schema.base import UNSET, Maybe, Model


class SessionMode(Model, kw_only=True):
    """A mode that an agent offers."""

    id: str
    name: str
    description: Maybe[str] = UNSET


class SessionModeState(Model, kw_only=True):
    """The modes of a session and the one it is in."""

    current_mode_id: str
    available_modes: list[SessionMode]


class SetModeParams(Model, kw_only=True):
    """session/set_mode."""

    session_id: str
    mode_id: str


class SetModeResult(Model, kw_only=True):
    """The mode was set."""


class ConfigCategory:
    """What an option is about, so that a client can place it."""

    MODE = "mode"
    MODEL = "model"
    MODEL_CONFIG = "model_config"
    THOUGHT_LEVEL = "thought_level"
    OTHER = "other"


class ConfigType:
    """The official types of options."""

    SELECT = "select"
    BOOLEAN = "boolean"


class ConfigChoice(Model, kw_only=True):
    """A value that can be chosen, or a named group of such values."""

    name: Maybe[str] = UNSET
    value: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    group: Maybe[str] = UNSET
    options: Maybe[list[ConfigChoice]] = UNSET

    @property
    def form(self) -> str:
        """Which of the official forms this is: "value" or "group"."""
        return "group" if isinstance(self.group, str) and not isinstance(self.value, str) else "value"


class SessionConfigOption(Model, kw_only=True):
    """One setting of a session: a choice (`select`) or a switch (`boolean`)."""

    id: str
    name: str
    type: str
    current_value: Any
    description: Maybe[str] = UNSET
    category: Maybe[str] = UNSET
    options: Maybe[list[ConfigChoice]] = UNSET

    @property
    def form(self) -> str:
        """How the choices stand: "boolean", "flat" or "grouped"."""
        if self.type == ConfigType.BOOLEAN:
            return "boolean"
        return "grouped" if any(choice.form == "group" for choice in self.options or ()) else "flat"

    @property
    def values(self) -> list[ConfigChoice]:
        """All values that can be chosen, whether grouped or not."""
        found: list[ConfigChoice] = []
        for choice in self.options or ():
            found.extend((choice.options or ()) if choice.form == "group" else (choice,))
        return found


class SetConfigOptionParams(Model, kw_only=True):
    """session/set_config_option; `value` is a str, or a bool with `type` "boolean"."""

    session_id: str
    config_id: str
    value: Any
    type: Maybe[str] = UNSET


class SetConfigOptionResult(Model, kw_only=True):
    """All options as they stand now."""

    config_options: list[SessionConfigOption]
