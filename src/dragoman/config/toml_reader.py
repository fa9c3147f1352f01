"""Read parsed TOML into values; collect every error with its line and key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.config.private_files import read_bytes
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.errors import ConfigFault
from dragoman.policy.toml_lines import TomlPath, format_path, line_number

_DIALECTS = ("auto", *DIALECT_NAMES)


class TomlReader:
    """Reads one document; `faults` has all errors."""

    def __init__(self, name: str, lines: dict[TomlPath, int]) -> None:
        self.faults: list[str] = []
        self._name = name
        self._lines = lines

    def read_members(
        self, table: Mapping[str, Any], path: TomlPath, known: Mapping[str, ReadValue], what: str
    ) -> dict[str, Any] | None:
        """Read a table by its members' readers; None if there was an error."""
        before = len(self.faults)
        found = {}
        for key, value in table.items():
            reading = known.get(key)
            if reading is None:
                self.add_fault((*path, key), f"{what} has no such member; it has {', '.join(known)}")
            else:
                found[key] = reading(self, value, (*path, key))
        return found if len(self.faults) == before else None

    def read_table(self, value: Any, path: TomlPath, how: str) -> dict[str, Any]:
        """Return a table; `how` says how it is written."""
        if not isinstance(value, dict):
            self.add_fault(path, how)
            return {}
        return value

    def read_text(self, value: Any, path: TomlPath) -> str:
        """Return a string."""
        if not isinstance(value, str):
            self.add_fault(path, "must be a text")
            return ""
        return value

    def read_texts(self, value: Any, path: TomlPath) -> tuple[str, ...]:
        """Return a list of strings."""
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.add_fault(path, "must be a list of texts")
            return ()
        return tuple(value)

    def read_pairs(self, value: Any, path: TomlPath) -> dict[str, str]:
        """Return a table of strings."""
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            self.add_fault(path, 'must be a table of texts, such as { NAME = "value" }')
            return {}
        return value

    def read_bool(self, value: Any, path: TomlPath) -> bool:
        """Return a boolean."""
        if not isinstance(value, bool):
            self.add_fault(path, "must be true or false")
        return value is True

    def read_number(self, value: Any, path: TomlPath) -> float:
        """Return a number above zero."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
            self.add_fault(path, "must be a number above zero")
            return 1.0
        return value

    def read_numbers(self, value: Any, path: TomlPath) -> dict[str, float]:
        """Return a table of numbers above zero."""
        table = self.read_table(value, path, "must be a table of numbers")
        return {key: self.read_number(each, (*path, key)) for key, each in table.items()}

    @staticmethod
    def choice_reader(*known: str) -> ReadValue:
        """Return a reader for one of these strings."""

        def read_choice(reader: TomlReader, value: Any, path: TomlPath) -> str:
            if value not in known:
                reader.add_fault(path, f"must be one of {', '.join(known)}")
            return reader.read_text(value, path)

        return read_choice

    def read_dialect(self, value: Any, path: TomlPath) -> str:
        """Return a dialect, or auto."""
        if value not in _DIALECTS:
            self.add_fault(path, f"there is no dialect {value!r}; there are {', '.join(_DIALECTS)}")
        return self.read_text(value, path)

    def add_fault(self, path: TomlPath, what: str) -> None:
        """Add an error."""
        self.faults.append(f"{self._name}: line {line_number(self._lines, path)}: {format_path(path)}: {what}")


ReadValue = Callable[[TomlReader, Any, TomlPath], Any]

# The reader of a member, by its type.
_READERS: dict[Any, ReadValue] = {
    str: TomlReader.read_text,
    bool: TomlReader.read_bool,
    float: TomlReader.read_number,
    tuple[str, ...]: TomlReader.read_texts,
    Mapping[str, str]: TomlReader.read_pairs,
    Mapping[str, float]: TomlReader.read_numbers,
}


def member_readers(table: type[msgspec.Struct], **checked: ReadValue) -> dict[str, ReadValue]:
    """Return the readers of a table's members, without its name: those given, else by type."""
    fields = [field for field in msgspec.structs.fields(table) if field.name != "name"]
    return {field.name: checked.get(field.name) or _READERS[field.type] for field in fields}


def read_text_file(path: str) -> str:
    """Return the text of a user's file; "" if it does not exist. Raise ConfigFault if it cannot be read."""
    try:
        data = read_bytes(path) or b""
    except OSError as error:
        raise ConfigFault([f"{path}: {error.strerror or error}"]) from None
    return decode_text(data, path)


def decode_text(data: bytes, name: str) -> str:
    """Return the text of a file; raise ConfigFault if it is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigFault([f"{name}: line {line}: the file is not UTF-8"]) from None
