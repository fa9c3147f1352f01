"""The [chains.NAME] tables of config.toml: proxies in order before an agent. Each chain can be named like an agent."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.config.toml_reader import TomlReader, member_readers
from dragoman.dialect.dialects import DEFAULT_DIALECT
from dragoman.policy.toml_lines import TomlPath

ON_EXIT = ("fail", "restart", "bypass")


class ProxySection(msgspec.Struct, frozen=True, kw_only=True):
    """One proxy of a chain: a command, or a built-in proxy with its options."""

    proxy: str
    name: str = ""
    on_exit: str = "fail"
    env: Mapping[str, str] = {}
    dialect: str = DEFAULT_DIALECT


class ChainSection(msgspec.Struct, frozen=True, kw_only=True):
    """One [chains.NAME] table."""

    name: str
    proxies: tuple[ProxySection, ...] = ()
    agent: str = ""  # the name of an agent or of another chain
    command: tuple[str, ...] = ()  # or the command of an agent


def _read_words(reader: TomlReader, value: Any, path: TomlPath) -> tuple[str, ...]:
    """Read a command line as one text or as its words."""
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            reader.add_fault(path, f"cannot be split into words: {error}")
            return ()
    return reader.read_texts(value, path)


def _read_proxies(reader: TomlReader, value: Any, path: TomlPath) -> tuple[ProxySection, ...]:
    if not isinstance(value, list):
        reader.add_fault(path, 'must be a list, such as ["context", "my-proxy --fast"]')
        return ()
    found = []
    for number, each in enumerate(value):
        place = (*path, number)
        if isinstance(each, str) and each.strip():
            found.append(ProxySection(proxy=each))
        elif isinstance(each, dict) and isinstance(each.get("proxy"), str) and each["proxy"].strip():
            members = reader.read_members(each, place, _PROXY_KEYS, "a proxy")
            if members is not None:
                found.append(ProxySection(**members))
        else:
            reader.add_fault(place, 'a proxy is a text, or a table such as { proxy = "CMD", on_exit = "restart" }')
    return tuple(found)


_PROXY_KEYS = {
    **member_readers(ProxySection, on_exit=TomlReader.choice_reader(*ON_EXIT), dialect=TomlReader.read_dialect),
    "name": TomlReader.read_text,
}
_KEYS = member_readers(ChainSection, proxies=_read_proxies, command=_read_words)


def read_chains(
    reader: TomlReader, value: Any, is_name: Callable[[str], Any], name_rule: str
) -> dict[str, ChainSection]:
    """Read the tables, and collect every error."""
    found: dict[str, ChainSection] = {}
    for name, table in reader.read_table(value, ("chains",), "chains are written as [chains.NAME]").items():
        path: TomlPath = ("chains", name)
        if not is_name(name):
            reader.add_fault(path, name_rule)
        elif not isinstance(table, dict):
            reader.add_fault(path, f"a chain is written as a table: [chains.{name}]")
        else:
            members = reader.read_members(table, path, _KEYS, "a chain")
            if members is not None:
                found[name] = ChainSection(name=name, **members)
                if bool(table.get("agent")) == bool(table.get("command")):
                    reader.add_fault(path, "say either agent, the name of an agent, or command, how to start it")
    for name in found:
        if _is_circular(name, found):
            reader.add_fault(("chains", name, "agent"), "the chain contains itself; name an agent")
    return found


def _is_circular(name: str, chains: Mapping[str, ChainSection]) -> bool:
    seen = {name}
    while (following := chains[name].agent) in chains:
        if following in seen:
            return True
        seen.add(following)
        name = following
    return False
