"""config.toml: agents by the names that the user gave them, and which one is meant when none is named.

    version = 1
    default = "opencode"
    store = true                  # whether sessions are kept
    [agents.opencode]
    command = "opencode"          # and args, env, cwd, dialect, mode, sandbox
    [host]                        # what `dragoman serve` does, and hosts by name: hosting.py

Takes the text of the file, gives values; every fault names the line and the key. Changing the file keeps the rest of
it, comments too. Who starts an agent, and how, is decided above.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.config import host_section
from dragoman.config.host_section import HostSection, NamedHost
from dragoman.config.private_files import file_lock, write_private
from dragoman.config.toml_reader import ReadValue, TomlReader, read_text_file
from dragoman.errors import ConfigFault
from dragoman.policy.toml_lines import TomlPath, line_numbers

# The form of the file; a newer one is refused, not guessed at.
VERSION = 1

# Names are typed on command lines and written into TOML: nothing that either would have to quote.
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NAME_RULE = "a name has letters, digits, - and _, and begins with a letter or a digit"

_TOP_KEYS = ("version", "default", "store", "agents", "host", "hosts", "default_host")


class NamedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent is started, and how it is to be used."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str = ""  # where it works; without it, wherever the user is
    dialect: str = "auto"
    mode: str = ""  # the agent's own mode that sessions begin in
    sandbox: bool = False

    @property
    def argv(self) -> list[str]:
        """The command line that starts it."""
        return [os.path.expanduser(self.command), *self.args]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says."""

    agents: Mapping[str, NamedAgent] = {}
    default: str = ""
    store: bool = True  # whether commands keep sessions
    host: HostSection = HostSection()  # what `dragoman serve` does
    hosts: Mapping[str, NamedHost] = {}  # those that the user reaches by a name
    default_host: str = ""


def load_config(path: str) -> Config:
    """The user's agents; none when there is no file. Raises ConfigFault with all that is wrong."""
    return parse_config(read_text_file(path), path)


def parse_config(text: str, name: str) -> Config:
    """Read the file; raises ConfigFault with all that is wrong."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigFault([f"{name}: {_format_toml_error(str(error), text)}"]) from None
    reader = TomlReader(name, line_numbers(text))
    agents = _read_document(reader, document)
    if reader.faults:
        raise ConfigFault(reader.faults)
    return agents


# --- changing the file ----------------------------------------------------------------------------------------


def add_agent(path: str, agent: NamedAgent) -> None:
    """Write one more agent at the end of the file; a name that is taken is refused."""

    def added(text: str, agents: Config) -> str:
        if agent.name in agents.agents:
            raise ConfigFault([f"there is an agent {agent.name} already; remove it first"])
        return append_table(text, _agent_table(agent))

    edit_config(path, added)


def remove_agent(path: str, name: str) -> None:
    """Take an agent out, and the default with it if it was that."""

    def removed(text: str, agents: Config) -> str:
        if agents.default == name:
            text = remove_key(text, "default")
        return remove_table(text, ("agents", name), path)

    edit_config(path, removed)


def set_default_agent(path: str, name: str) -> None:
    """Which agent is meant when none is named; an empty name takes the choice back."""
    edit_config(path, lambda text, _: set_key(text, "default", name))


def edit_config(path: str, edit: Callable[[str, Config], str]) -> None:
    """Change the file: from its text and what that says to another text, which must be one that can be read."""
    with file_lock(path):
        text = read_text_file(path)
        after = edit(text, parse_config(text, path))
        parse_config(after, path)  # what we write must be what we read
        write_private(path, after.encode())


def append_table(text: str, table: str) -> str:
    """The text with one more table at its end."""
    return (f"{text.rstrip()}\n\n" if text.strip() else f"version = {VERSION}\n\n") + table


def remove_table(text: str, table: TomlPath, path: str) -> str:
    """The text without a table that stands for itself, and all below it."""
    lines = text.split("\n")
    ours = [line for key, line in line_numbers(text).items() if key[:2] == table]
    heads = sorted(number for number, line in enumerate(lines, 1) if line.lstrip().startswith("["))
    if not ours or min(ours) not in heads:
        said = ".".join(map(str, table))
        raise ConfigFault([f"{path}: {said} is not written as a table of its own; take it out by hand"])
    end = next((head for head in heads if head > max(ours)), len(lines) + 1)
    while end > max(ours) + 1 and lines[end - 2].lstrip().startswith("#"):
        end -= 1  # a comment right above the next table belongs to that one
    return "\n".join([*lines[: min(ours) - 1], *lines[end - 1 :]])


def set_key(text: str, key: str, value: str) -> str:
    """The text with this key at its top; an empty value takes it out."""
    text = remove_key(text, key)
    if not value:
        return text
    lines = text.split("\n") if text.strip() else [f"version = {VERSION}", ""]
    at = next((index + 1 for index, line in enumerate(lines) if line.startswith("version")), 0)
    return "\n".join([*lines[:at], f"{key} = {quote_toml(value)}", *lines[at:]])


def remove_key(text: str, key: str) -> str:
    """The text without this key at its top."""
    line = line_numbers(text).get((key,))
    lines = text.split("\n")
    return text if line is None else "\n".join([*lines[: line - 1], *lines[line:]])


def _agent_table(agent: NamedAgent) -> str:
    lines = [f"[agents.{agent.name}]", f"command = {quote_toml(agent.command)}"]
    if agent.args:
        lines.append(f"args = [{', '.join(map(quote_toml, agent.args))}]")
    if agent.env:
        pairs = ", ".join(f"{quote_toml(name)} = {quote_toml(value)}" for name, value in agent.env.items())
        lines.append(f"env = {{ {pairs} }}")
    for key in ("cwd", "dialect", "mode"):
        if getattr(agent, key) != getattr(NamedAgent(name="x", command="x"), key):
            lines.append(f"{key} = {quote_toml(getattr(agent, key))}")
    if agent.sandbox:
        lines.append("sandbox = true")
    return "\n".join(lines) + "\n"


def quote_toml(text: str) -> str:
    """A TOML string; JSON's way of writing it is one of TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# --- reading --------------------------------------------------------------------------------------------------


def _format_toml_error(message: str, text: str) -> str:
    """The words of the standard reader, with the line in front, as our own faults have it."""
    what, _, place = message.rpartition(" (at ")
    line = place.removeprefix("line ").partition(",")[0]
    if not line.isdigit():  # "end of document"
        line = str(text.rstrip("\n").count("\n") + 1)
    return f"line {line}: {what[:1].lower()}{what[1:]}"


def _read_document(reader: TomlReader, document: dict[str, Any]) -> Config:
    for key in document.keys() - set(_TOP_KEYS):
        reader.add_fault((key,), f"there is no such setting; there are {', '.join(_TOP_KEYS)}")
    if document.get("version", VERSION) != VERSION:
        reader.add_fault(("version",), f"this Dragoman reads version {VERSION}")
    tables = reader.read_table(document.get("agents", {}), ("agents",), "agents are written as [agents.NAME]")
    agents = {name: _read_agent(reader, name, table) for name, table in tables.items()}
    hosts = host_section.read_hosts(reader, document.get("hosts", {}), NAME_PATTERN.fullmatch, NAME_RULE)
    return Config(
        agents={name: agent for name, agent in agents.items() if agent is not None},
        default=_read_default(reader, document, "default", "agent", agents),
        store=reader.read_bool(document.get("store", True), ("store",)),
        host=host_section.read_host_section(reader, document.get("host", {})),
        hosts=hosts,
        default_host=_read_default(reader, document, "default_host", "host", hosts),
    )


def _read_default(reader: TomlReader, document: dict[str, Any], key: str, what: str, known: Mapping[str, Any]) -> str:
    default = reader.read_text(document.get(key, ""), (key,))
    if default and default not in known:
        reader.add_fault((key,), f"there is no {what} {default!r}; there are {', '.join(known) or 'none'}")
    return default


def _read_agent(reader: TomlReader, name: str, table: Any) -> NamedAgent | None:
    path: TomlPath = ("agents", name)
    before = len(reader.faults)
    if NAME_PATTERN.fullmatch(name) is None:
        reader.add_fault(path, NAME_RULE)
    if not isinstance(table, dict):
        reader.add_fault(path, f"an agent is written as a table: [agents.{name}]")
        return None
    members = reader.read_members(table, path, _AGENT_KEYS, "an agent")
    if not table.get("command"):
        reader.add_fault((*path, "command") if "command" in table else path, "command must say what to start")
    return NamedAgent(name=name, **(members or {})) if len(reader.faults) == before else None


# Member of an agent's table -> how it is read.
_AGENT_KEYS: dict[str, ReadValue] = {
    "command": TomlReader.read_text,
    "args": TomlReader.read_texts,
    "env": TomlReader.read_pairs,
    "cwd": TomlReader.read_text,
    "dialect": TomlReader.read_dialect,
    "mode": TomlReader.read_text,
    "sandbox": TomlReader.read_bool,
}
