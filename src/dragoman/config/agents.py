"""config.toml: agents by the names that the user gave them, and which one is meant when none is named.

    version = 1
    default = "opencode"
    store = true                  # whether sessions are kept
    [agents.opencode]
    command = "opencode"          # and args, env, cwd, dialect, mode, sandbox

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

from dragoman.config.files import locked, read, write_private
from dragoman.dialect.registry import NAMES
from dragoman.errors import ConfigFault
from dragoman.policy.lines import Path, line_of, lines_of, spelled

# The form of the file; a newer one is refused, not guessed at.
VERSION = 1

# Names are typed on command lines and written into TOML: nothing that either would have to quote.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NAMING = "a name has letters, digits, - and _, and begins with a letter or a digit"

_TOP = ("version", "default", "store", "agents")
_DIALECTS = ("auto", *NAMES)


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
    def words(self) -> list[str]:
        """The command line that starts it."""
        return [os.path.expanduser(self.command), *self.args]


class Agents(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says."""

    agents: Mapping[str, NamedAgent] = {}
    default: str = ""
    store: bool = True  # whether commands keep sessions


def load(path: str) -> Agents:
    """The user's agents; none when there is no file. Raises ConfigFault with all that is wrong."""
    return parse(_text(path), path)


def parse(text: str, name: str) -> Agents:
    """Read the file; raises ConfigFault with all that is wrong."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigFault([f"{name}: {_placed(str(error), text)}"]) from None
    reader = _Reader(name, lines_of(text))
    agents = reader.document(document)
    if reader.faults:
        raise ConfigFault(reader.faults)
    return agents


# --- changing the file ----------------------------------------------------------------------------------------


def add(path: str, agent: NamedAgent) -> None:
    """Write one more agent at the end of the file; a name that is taken is refused."""

    def added(text: str, agents: Agents) -> str:
        if agent.name in agents.agents:
            raise ConfigFault([f"there is an agent {agent.name} already; remove it first"])
        start = f"{text.rstrip()}\n\n" if text.strip() else f"version = {VERSION}\n\n"
        return start + _written(agent)

    _change(path, added)


def remove(path: str, name: str) -> None:
    """Take an agent out, and the default with it if it was that."""

    def removed(text: str, agents: Agents) -> str:
        if agents.default == name:
            text = _without_default(text)
        lines = text.split("\n")
        found = lines_of(text)
        ours = [line for path, line in found.items() if path[:2] == ("agents", name)]
        heads = sorted(number for number, line in enumerate(lines, 1) if line.lstrip().startswith("["))
        if not ours or min(ours) not in heads:
            raise ConfigFault([f"{path}: agents.{name} is not written as a table of its own; take it out by hand"])
        end = next((head for head in heads if head > max(ours)), len(lines) + 1)
        while end > max(ours) + 1 and lines[end - 2].lstrip().startswith("#"):
            end -= 1  # a comment right above the next table belongs to that one
        return "\n".join([*lines[: min(ours) - 1], *lines[end - 1 :]])

    _change(path, removed)


def set_default(path: str, name: str) -> None:
    """Which agent is meant when none is named; an empty name takes the choice back."""

    def chosen(text: str, _: Agents) -> str:
        text = _without_default(text)
        if not name:
            return text
        lines = text.split("\n") if text.strip() else [f"version = {VERSION}", ""]
        at = next((index + 1 for index, line in enumerate(lines) if line.startswith("version")), 0)
        return "\n".join([*lines[:at], f"default = {_quoted(name)}", *lines[at:]])

    _change(path, chosen)


def _change(path: str, change: Callable[[str, Agents], str]) -> None:
    with locked(path):
        text = _text(path)
        after = change(text, parse(text, path))
        parse(after, path)  # what we write must be what we read
        write_private(path, after.encode())


def _without_default(text: str) -> str:
    line = lines_of(text).get(("default",))
    lines = text.split("\n")
    return text if line is None else "\n".join([*lines[: line - 1], *lines[line:]])


def _written(agent: NamedAgent) -> str:
    lines = [f"[agents.{agent.name}]", f"command = {_quoted(agent.command)}"]
    if agent.args:
        lines.append(f"args = [{', '.join(map(_quoted, agent.args))}]")
    if agent.env:
        pairs = ", ".join(f"{_quoted(name)} = {_quoted(value)}" for name, value in agent.env.items())
        lines.append(f"env = {{ {pairs} }}")
    for key in ("cwd", "dialect", "mode"):
        if getattr(agent, key) != getattr(NamedAgent(name="x", command="x"), key):
            lines.append(f"{key} = {_quoted(getattr(agent, key))}")
    if agent.sandbox:
        lines.append("sandbox = true")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML string; JSON's way of writing it is one of TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# --- reading --------------------------------------------------------------------------------------------------


def _text(path: str) -> str:
    try:
        return (read(path) or b"").decode("utf-8-sig")
    except OSError as error:
        raise ConfigFault([f"{path}: {error.strerror or error}"]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigFault([f"{path}: line {line}: the file is not UTF-8"]) from None


def _placed(message: str, text: str) -> str:
    """The words of the standard reader, with the line in front, as our own faults have it."""
    what, _, place = message.rpartition(" (at ")
    line = place.removeprefix("line ").partition(",")[0]
    if not line.isdigit():  # "end of document"
        line = str(text.rstrip("\n").count("\n") + 1)
    return f"line {line}: {what[:1].lower()}{what[1:]}"


class _Reader:
    def __init__(self, name: str, lines: dict[Path, int]) -> None:
        self.faults: list[str] = []
        self._name = name
        self._lines = lines

    def document(self, document: dict[str, Any]) -> Agents:
        for key in document.keys() - set(_TOP):
            self.fault((key,), f"there is no such setting; there are {', '.join(_TOP)}")
        if document.get("version", VERSION) != VERSION:
            self.fault(("version",), f"this Dragoman reads version {VERSION}")
        tables = document.get("agents", {})
        if not isinstance(tables, dict):
            self.fault(("agents",), "agents are written as [agents.NAME]")
            tables = {}
        agents = {name: self._agent(name, table) for name, table in tables.items()}
        default = self.text(document.get("default", ""), ("default",))
        if default and default not in agents:
            self.fault(("default",), f"there is no agent {default!r}; there are {', '.join(agents) or 'none'}")
        return Agents(
            agents={name: agent for name, agent in agents.items() if agent is not None},
            default=default,
            store=self.switch(document.get("store", True), ("store",)),
        )

    def _agent(self, name: str, table: Any) -> NamedAgent | None:
        path: Path = ("agents", name)
        if NAME.fullmatch(name) is None:
            self.fault(path, NAMING)
        if not isinstance(table, dict):
            self.fault(path, f"an agent is written as a table: [agents.{name}]")
            return None
        before = len(self.faults)
        members = {}
        for key, value in table.items():
            reading = _MEMBERS.get(key)
            if reading is None:
                self.fault((*path, key), f"an agent has no such member; it has {', '.join(_MEMBERS)}")
            else:
                members[key] = reading(self, value, (*path, key))
        if not table.get("command"):
            self.fault((*path, "command") if "command" in table else path, "command must say what to start")
        return NamedAgent(name=name, **members) if len(self.faults) == before else None

    def text(self, value: Any, path: Path) -> str:
        if not isinstance(value, str):
            self.fault(path, "must be a text")
            return ""
        return value

    def texts(self, value: Any, path: Path) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.fault(path, "must be a list of texts")
            return ()
        return tuple(value)

    def pairs(self, value: Any, path: Path) -> dict[str, str]:
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            self.fault(path, 'must be a table of texts, such as { NAME = "value" }')
            return {}
        return value

    def switch(self, value: Any, path: Path) -> bool:
        if not isinstance(value, bool):
            self.fault(path, "must be true or false")
        return value is True

    def dialect(self, value: Any, path: Path) -> str:
        if value not in _DIALECTS:
            self.fault(path, f"there is no dialect {value!r}; there are {', '.join(_DIALECTS)}")
        return self.text(value, path)

    def fault(self, path: Path, what: str) -> None:
        self.faults.append(f"{self._name}: line {line_of(self._lines, path)}: {spelled(path)}: {what}")


# Member of an agent's table -> how it is read.
_MEMBERS: dict[str, Callable[[_Reader, Any, Path], Any]] = {
    "command": _Reader.text,
    "args": _Reader.texts,
    "env": _Reader.pairs,
    "cwd": _Reader.text,
    "dialect": _Reader.dialect,
    "mode": _Reader.text,
    "sandbox": _Reader.switch,
}
