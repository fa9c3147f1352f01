"""The config options of a session for a v2 client, with one option for the modes of an agent that has those."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.v2.session import mode_option
from dragoman.dialect.v2.tables import MODE_CATEGORY
from dragoman.schema.base import to_json
from dragoman.schema.config import SessionConfigOption


class Options(msgspec.Struct, eq=False):
    """All options; `mode` is the one that stands for modes."""

    own: list[SessionConfigOption] = msgspec.field(default_factory=list)  # as the agent has them
    mode: SessionConfigOption | None = None

    @property
    def all(self) -> list[SessionConfigOption]:
        """All options, the modes last."""
        return [*self.own, self.mode] if self.mode is not None else list(self.own)

    @property
    def has_any(self) -> bool:
        """Whether there is an option."""
        return bool(self.own) or self.mode is not None

    def set(self, modes: Any, options: Any) -> None:
        """Take what the answer to session/new, load or resume says."""
        self.set_all(_typed(options))
        self.mode = None
        values = to_json(modes) if modes not in (None, UNSET) else None
        if values and not any(option.category == MODE_CATEGORY for option in self.own):
            described = mode_option(values, {option.id for option in self.own})
            self.mode = msgspec.convert(described, SessionConfigOption)

    def set_all(self, options: Any) -> None:
        """Take all options of the agent."""
        if options is not UNSET:
            self.own = list(_typed(options))

    def is_mode(self, config_id: str) -> bool:
        """Return whether an option stands for modes."""
        return self.mode is not None and self.mode.id == config_id

    def set_mode(self, value: str) -> bool:
        """Note the current mode; return whether an option says it."""
        if self.mode is None:
            return False
        self.mode = msgspec.structs.replace(self.mode, current_value=value)
        return True


def _typed(options: Any) -> list[SessionConfigOption]:
    if not isinstance(options, list):
        return []
    return [
        option if isinstance(option, SessionConfigOption) else msgspec.convert(option, SessionConfigOption)
        for option in options
    ]
