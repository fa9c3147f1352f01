"""Reading TOML of the user's into values: every fault is kept with its line and key, and reading goes on.

Takes parsed TOML, gives values; a table of members says how each is read. Above are the parts of config.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dragoman.config.private_files import read
from dragoman.dialect.dialects import NAMES
from dragoman.errors import ConfigFault
from dragoman.policy.toml_lines import Path, line_of, spelled

_DIALECTS = ("auto", *NAMES)


class Reader:
    """Reads one document; `faults` has all that is wrong in it."""

    def __init__(self, name: str, lines: dict[Path, int]) -> None:
        self.faults: list[str] = []
        self._name = name
        self._lines = lines

    def members(
        self, table: Mapping[str, Any], path: Path, known: Mapping[str, Reading], what: str
    ) -> dict[str, Any] | None:
        """The members of a table, each read by its row; None when there was a fault."""
        before = len(self.faults)
        found = {}
        for key, value in table.items():
            reading = known.get(key)
            if reading is None:
                self.fault((*path, key), f"{what} has no such member; it has {', '.join(known)}")
            else:
                found[key] = reading(self, value, (*path, key))
        return found if len(self.faults) == before else None

    def table(self, value: Any, path: Path, how: str) -> dict[str, Any]:
        """A table; `how` says how it is written."""
        if not isinstance(value, dict):
            self.fault(path, how)
            return {}
        return value

    def text(self, value: Any, path: Path) -> str:
        """A text."""
        if not isinstance(value, str):
            self.fault(path, "must be a text")
            return ""
        return value

    def texts(self, value: Any, path: Path) -> tuple[str, ...]:
        """A list of texts."""
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.fault(path, "must be a list of texts")
            return ()
        return tuple(value)

    def pairs(self, value: Any, path: Path) -> dict[str, str]:
        """A table of texts."""
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            self.fault(path, 'must be a table of texts, such as { NAME = "value" }')
            return {}
        return value

    def switch(self, value: Any, path: Path) -> bool:
        """True or false."""
        if not isinstance(value, bool):
            self.fault(path, "must be true or false")
        return value is True

    def number(self, value: Any, path: Path) -> float:
        """A number above zero."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
            self.fault(path, "must be a number above zero")
            return 1.0
        return value

    def numbers(self, value: Any, path: Path) -> dict[str, float]:
        """A table of numbers above zero."""
        table = self.table(value, path, "must be a table of numbers")
        return {key: self.number(each, (*path, key)) for key, each in table.items()}

    @staticmethod
    def one_of(*known: str) -> Reading:
        """How a text is read that must be one of these."""

        def chosen(reader: Reader, value: Any, path: Path) -> str:
            if value not in known:
                reader.fault(path, f"must be one of {', '.join(known)}")
            return reader.text(value, path)

        return chosen

    def dialect(self, value: Any, path: Path) -> str:
        """A dialect, or auto."""
        if value not in _DIALECTS:
            self.fault(path, f"there is no dialect {value!r}; there are {', '.join(_DIALECTS)}")
        return self.text(value, path)

    def fault(self, path: Path, what: str) -> None:
        """Something is wrong there."""
        self.faults.append(f"{self._name}: line {line_of(self._lines, path)}: {spelled(path)}: {what}")


Reading = Callable[[Reader, Any, Path], Any]


def text_of(path: str) -> str:
    """What a file of the user's says; nothing when it is not there. ConfigFault when it cannot be read."""
    try:
        return (read(path) or b"").decode("utf-8-sig")
    except OSError as error:
        raise ConfigFault([f"{path}: {error.strerror or error}"]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigFault([f"{path}: line {line}: the file is not UTF-8"]) from None
