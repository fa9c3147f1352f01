"""config.toml: the user's agents by name, the default agent, and the parts about hosts (host_section.py).

Every error names the line and the key. Edits keep the rest of the file, comments too. docs/commands.md shows one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from dragoman.config import host_section
from dragoman.config.chains_section import ChainSection, read_chains
from dragoman.config.host_section import HostSection, NamedHost
from dragoman.config.lsp_section import ServerSection, read_servers
from dragoman.config.private_files import file_lock, write_private
from dragoman.config.registry_section import RegistrySection, read_registry_section
from dragoman.config.teams_section import TeamSection, read_teams
from dragoman.config.toml_reader import TomlReader, member_readers, read_text_file
from dragoman.errors import ConfigFault
from dragoman.policy.toml_lines import TomlPath, line_numbers
from dragoman.transport.address import is_remote
from dragoman.transport.process.module_command import module_command
from dragoman.transport.sandbox.spec import Sandbox

# The file format version; a newer one is an error.
VERSION = 1

# Names need no quoting on command lines and in TOML.
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NAME_RULE = "use letters, digits, - and _ in a name, starting with a letter or a digit"

_TOP_KEYS = (
    "version", "default", "store", "agents", "host", "hosts", "default_host", "registry", "lsp", "chains", "teams",
)  # fmt: skip


class NamedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent is started and used."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str = ""  # its working directory; "" for the user's current one
    dialect: str = "auto"
    mode: str = ""  # the agent's own mode for new sessions
    sandbox: bool = False  # whether it always starts in a sandbox

    @property
    def argv(self) -> list[str]:
        """The command line that starts it."""
        return [os.path.expanduser(self.command), *self.args]

    @property
    def is_remote(self) -> bool:
        """Whether it runs elsewhere, with files of its own: `command` is its http or ws address."""
        return is_remote(self.command)

    @property
    def confinement(self) -> Sandbox | None:
        """The sandbox that it always starts in; None if it has none, or runs elsewhere."""
        return Sandbox() if self.sandbox and not self.is_remote else None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file."""

    agents: Mapping[str, NamedAgent] = {}  # with each chain and team as an agent that Dragoman runs
    default: str = ""
    store: bool = True  # whether commands store sessions
    host: HostSection = HostSection()  # settings of `dragoman serve`
    hosts: Mapping[str, NamedHost] = {}  # hosts that the user has named
    default_host: str = ""
    registry: RegistrySection = RegistrySection()  # where agents are installed from
    lsp: Mapping[str, ServerSection] = {}  # language servers
    chains: Mapping[str, ChainSection] = {}  # proxies before an agent
    teams: Mapping[str, TeamSection] = {}  # several agents as one


def load_config(path: str) -> Config:
    """Load the user's config; empty if there is no file. Raise ConfigFault with all errors."""
    return parse_config(read_text_file(path), path)


def parse_config(text: str, name: str) -> Config:
    """Parse the file; raise ConfigFault with all errors."""
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


# The tables of config.toml that have names: the key of their default, and what one is called.
_NAMED_TABLES = {"agents": ("default", "an agent"), "hosts": ("default_host", "a host")}


def add_entry(path: str, entry: NamedAgent | NamedHost, *, replaces: bool = False) -> None:
    """Add an agent or host at the end of the file, in place of the one with its name, or raise if there is one."""
    kind = "agents" if isinstance(entry, NamedAgent) else "hosts"

    def add(text: str, config: Config) -> str:
        if replaces:
            text = _remove_table(text, (kind, entry.name), path)
        elif entry.name in getattr(config, kind):
            remove = f"dragoman {kind} remove {entry.name}"
            raise ConfigFault([f"there is {_NAMED_TABLES[kind][1]} {entry.name} already; remove it first: {remove}"])
        start = f"{text.rstrip()}\n\n" if text.strip() else f"version = {VERSION}\n\n"
        return start + _render_table(kind, entry)

    edit_config(path, add)


def remove_entry(path: str, kind: str, name: str) -> None:
    """Remove an agent or host, and the default if it was that one."""
    default = _NAMED_TABLES[kind][0]

    def remove(text: str, config: Config) -> str:
        if getattr(config, default) == name:
            text = _remove_key(text, default)
        return _remove_table(text, (kind, name), path)

    edit_config(path, remove)


def set_default(path: str, kind: str, name: str) -> None:
    """Set the default agent or host; an empty name removes the default."""

    def change(text: str, _: Config) -> str:
        key = _NAMED_TABLES[kind][0]
        text = _remove_key(text, key)
        if not name:
            return text
        lines = text.split("\n") if text.strip() else [f"version = {VERSION}", ""]
        at = next((index + 1 for index, line in enumerate(lines) if line.startswith("version")), 0)
        return "\n".join([*lines[:at], f"{key} = {quote_toml(name)}", *lines[at:]])

    edit_config(path, change)


def edit_config(path: str, edit: Callable[[str, Config], str]) -> None:
    """Edit the file: `edit` takes text and config and returns the new text, which must parse."""
    with file_lock(path):
        text = read_text_file(path)
        after = edit(text, parse_config(text, path))
        parse_config(after, path)  # what we write must be readable
        write_private(path, after.encode())


def _remove_table(text: str, table: TomlPath, path: str) -> str:
    """Return the text without a table and all below it."""
    lines = text.split("\n")
    ours = [line for key, line in line_numbers(text).items() if key[:2] == table]
    heads = sorted(number for number, line in enumerate(lines, 1) if line.lstrip().startswith("["))
    if not ours or min(ours) not in heads:
        table_name = ".".join(map(str, table))
        raise ConfigFault([f"{path}: {table_name} is not written as its own table; remove it by hand"])
    end = next((head for head in heads if head > max(ours)), len(lines) + 1)
    while end > max(ours) + 1 and lines[end - 2].lstrip().startswith("#"):
        end -= 1  # a comment right above the next table belongs to that one
    return "\n".join([*lines[: min(ours) - 1], *lines[end - 1 :]])


def _remove_key(text: str, key: str) -> str:
    line = line_numbers(text).get((key,))
    lines = text.split("\n")
    return text if line is None else "\n".join([*lines[: line - 1], *lines[line:]])


def _render_table(kind: str, entry: NamedAgent | NamedHost) -> str:
    """Return the table of an agent or host: its members that are not the default."""
    lines = [f"[{kind}.{entry.name}]"]
    for field in msgspec.structs.fields(entry):
        value = getattr(entry, field.name)
        if field.name != "name" and value != field.default and (value or not isinstance(value, Mapping)):
            lines.append(f"{field.name} = {_render_value(value)}")
    return "\n".join(lines) + "\n"


def _render_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(quote_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{quote_toml(name)} = {quote_toml(item)}' for name, item in value.items())} }}"
    return quote_toml(value)


def quote_toml(text: str) -> str:
    """Return a TOML string; JSON strings are valid TOML, except for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# --- reading --------------------------------------------------------------------------------------------------


def _format_toml_error(message: str, text: str) -> str:
    """Put the line number in front of a tomllib message, as in our own errors."""
    what, _, place = message.rpartition(" (at ")
    line = place.removeprefix("line ").partition(",")[0]
    if not line.isdigit():  # "end of document"
        line = str(text.rstrip("\n").count("\n") + 1)
    return f"line {line}: {what[:1].lower()}{what[1:]}"


def _read_document(reader: TomlReader, document: dict[str, Any]) -> Config:
    for key in document.keys() - set(_TOP_KEYS):
        reader.add_fault((key,), f"unknown setting; use one of {', '.join(_TOP_KEYS)}")
    if document.get("version", VERSION) != VERSION:
        reader.add_fault(("version",), f"unsupported version; this Dragoman reads version {VERSION}")
    tables = reader.read_table(document.get("agents", {}), ("agents",), "agents are written as [agents.NAME]")
    agents = {name: _read_agent(reader, name, table) for name, table in tables.items()}
    chains = read_chains(reader, document.get("chains", {}), NAME_PATTERN.fullmatch, NAME_RULE)
    teams = read_teams(reader, document.get("teams", {}), NAME_PATTERN.fullmatch, NAME_RULE)
    for kind, words, named in (("chains", ("conduct", "--chain"), chains), ("teams", ("team", "serve"), teams)):
        for name in named:
            if name in agents:
                reader.add_fault((kind, name), f"there is an agent {name} too; give one of them another name")
            agents.setdefault(name, own_agent(name, *words))
    hosts = host_section.read_hosts(reader, document.get("hosts", {}), NAME_PATTERN.fullmatch, NAME_RULE)
    return Config(
        chains=chains,
        agents={name: agent for name, agent in agents.items() if agent is not None},
        default=_read_default(reader, document, "default", "agent", agents),
        store=reader.read_bool(document.get("store", True), ("store",)),
        host=host_section.read_host_section(reader, document.get("host", {})),
        hosts=hosts,
        default_host=_read_default(reader, document, "default_host", "host", hosts),
        registry=read_registry_section(reader, document.get("registry", {})),
        teams=teams,
        lsp=read_servers(reader, document.get("lsp", {}), NAME_PATTERN.fullmatch, NAME_RULE),
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


def own_agent(name: str, *words: str) -> NamedAgent:
    """Return a chain or a team as an agent: a command of Dragoman runs it."""
    command, *start = module_command()
    return NamedAgent(name=name, command=command, args=(*start, *words, name))


_AGENT_KEYS = member_readers(NamedAgent, dialect=TomlReader.read_dialect)


# --- agents that are known without configuration -------------------------------------------------------------


class KnownAgent(NamedTuple):
    """A known agent: its command for stdio, and how to install it."""

    name: str
    command: tuple[str, ...]
    source: str


# The first word is the program; from docs/protocol/peers.md and the public agent registry.
KNOWN_AGENTS: tuple[KnownAgent, ...] = (
    KnownAgent("auggie", ("auggie", "--acp"), "npm @augmentcode/auggie"),
    KnownAgent("cagent", ("cagent", "acp"), "github.com/docker/cagent"),
    KnownAgent("claude", ("claude-agent-acp",), "npm @agentclientprotocol/claude-agent-acp"),
    KnownAgent("claude-code", ("claude-code-acp",), "npm @zed-industries/claude-code-acp"),
    KnownAgent("code-assistant", ("code-assistant", "acp"), "github.com/stippi/code-assistant"),
    KnownAgent("codex", ("codex-acp",), "npm @zed-industries/codex-acp"),
    KnownAgent("copilot", ("copilot", "--acp"), "npm @github/copilot"),
    KnownAgent("droid", ("droid", "exec", "--output-format", "acp"), "factory.ai"),
    KnownAgent("gemini", ("gemini", "--acp"), "npm @google/gemini-cli"),
    KnownAgent("goose", ("goose", "acp"), "github.com/block/goose"),
    KnownAgent("junie", ("junie", "--acp=true"), "npm @jetbrains/junie-cli"),
    KnownAgent("kimi", ("kimi", "acp"), "npm @moonshot-ai/kimi-code"),
    KnownAgent("opencode", ("opencode", "acp"), "npm opencode-ai"),
    KnownAgent("qoder", ("qodercli", "--acp"), "npm @qoder-ai/qodercli"),
    KnownAgent("qwen", ("qwen", "--acp"), "npm @qwen-code/qwen-code"),
    KnownAgent("stakpak", ("stakpak", "acp"), "github.com/stakpak/agent"),
    KnownAgent("vibe", ("vibe-acp",), "PyPI mistral-vibe"),
)


def installed_agents(environ: Mapping[str, str] = os.environ) -> dict[str, KnownAgent]:
    """Return the known agents on PATH, by name."""
    path = environ.get("PATH", os.defpath)
    return {known.name: known for known in KNOWN_AGENTS if shutil.which(known.command[0], path=path) is not None}
