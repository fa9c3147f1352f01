"""The [lsp.NAME] tables of config.toml: language servers of the user, and changes of the built-in ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.config.toml_reader import TomlReader, member_readers
from dragoman.policy.toml_lines import TomlPath


class ServerSection(msgspec.Struct, frozen=True, kw_only=True):
    """One [lsp.NAME] table."""

    name: str
    command: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # patterns of file names, such as "*.py"
    roots: tuple[str, ...] = ()  # files that mark the folder in which it is started
    settings: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
    on: bool = True


def _read_settings(reader: TomlReader, value: Any, path: TomlPath) -> Mapping[str, Any]:
    return reader.read_table(value, path, "settings are a table, as in settings = { key = value }")


_KEYS = member_readers(ServerSection, settings=_read_settings)


def read_servers(
    reader: TomlReader, value: Any, is_name: Callable[[str], Any], name_rule: str
) -> dict[str, ServerSection]:
    """Read the tables, and collect every error."""
    found = {}
    for name, table in reader.read_table(value, ("lsp",), "language servers are written as [lsp.NAME]").items():
        path: TomlPath = ("lsp", name)
        if not is_name(name):
            reader.add_fault(path, name_rule)
        elif not isinstance(table, dict):
            reader.add_fault(path, f"a language server is written as a table: [lsp.{name}]")
        else:
            members = reader.read_members(table, path, _KEYS, "a language server")
            if members is not None:
                found[name] = ServerSection(name=name, **members)
    return found
