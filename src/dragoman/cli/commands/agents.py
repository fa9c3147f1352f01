"""`dragoman agents`: list configured and found agents; add, remove, choose the default."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Any

from dragoman.cli import exit_codes
from dragoman.cli.connect import which_agent
from dragoman.cli.parser import Parser
from dragoman.cli.subcommands import Action, CommandGroup, find_name, require_name
from dragoman.cli.ui.format import report
from dragoman.config import config_file as config
from dragoman.config.config_file import KNOWN_AGENTS, NAME_PATTERN, NAME_RULE, NamedAgent
from dragoman.config.paths import user_paths
from dragoman.dialect.dialects import DIALECT_NAMES

EPILOG = """\
Every command that starts an agent takes --agent NAME. Without it, it uses the
default agent, else the only configured agent, else the only one on PATH. The
agents are stored in config.toml; `dragoman config path` prints its path.

exit codes:
  0  done
  1  there is no such agent, or the file has an error
  2  wrong usage

examples:
  dragoman agents
  dragoman agents add opencode
  dragoman agents add mine --env API_KEY=secret -- my-agent --acp
  dragoman agents default mine
  dragoman agents search --can load,image
  dragoman agents package --for registry my-agent
  dragoman agents --json"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then run the action."""
    parser = CommandGroup(
        "agents",
        "[ACTION] [NAME] [OPTIONS] [-- CMD ARG...]",
        "List, add and remove agents; choose the default agent.",
        _ACTIONS,
        EPILOG,
        default="list",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="add, remove, default: name of the agent")
    parser.add_value("--env", "NAME=VALUE", "add: set an environment variable; can be repeated", repeated=True)
    parser.add_value("--cwd", "DIR", "add: working directory (where you are)", default="")
    parser.add_argument("--dialect", default="auto", choices=("auto", *DIALECT_NAMES), help="add: dialect of the agent")
    parser.add_value("--mode", "ID", "add: start in this mode of the agent", default="")
    parser.add_flag("--sandbox", "add: always start it in the sandbox")
    parser.add_flag("--default", "add: also make it the default")
    parser.add_flag("--names", "list: print only the names")
    parser.add_flag("--json", "print JSON")
    code = parser.run_own(arguments)
    if code is not None:
        return code
    options, command = parser.read(arguments)
    options.command = command
    return parser.run_action(options)


def list_agents(parser: Parser, options: argparse.Namespace) -> int:
    """List the agents."""
    if options.name or options.command:
        parser.error("list takes no name")
    path = user_paths().config_file
    known = config.load_config(path)
    rows = which_agent.available_agents(known)
    if options.names:
        print("\n".join(agent.name for agent, _ in rows))
        return exit_codes.OK
    lines = which_agent.format_agents(rows)
    if not rows:
        width = max(len(each.name) for each in KNOWN_AGENTS)
        lines = [
            "No agent is configured, and no well-known agent is on PATH. Well-known agents:",
            *(f"  {each.name:{width}}  {' '.join(each.command)}  ({each.source})" for each in KNOWN_AGENTS),
            "To add any other ACP agent: dragoman agents add NAME -- CMD ARG...",
        ]
    agents = [agent_to_json(agent, source) for agent, source in rows]
    return report(options, {"file": path, "default": known.default or None, "agents": agents}, lines)


def agent_to_json(agent: NamedAgent, source: str) -> dict[str, Any]:
    """Return an agent for --json; the values of its variables are left out."""
    return {
        "name": agent.name,
        "source": "path" if source == "on PATH" else "config",
        "default": "default" in source,
        "command": agent.command,
        "args": list(agent.args),
        "env": sorted(agent.env),
        "cwd": agent.cwd or None,
        "dialect": agent.dialect,
        "mode": agent.mode or None,
        "sandbox": agent.sandbox,
        "found": _is_installed(agent),
    }


def add_agent(parser: Parser, options: argparse.Namespace) -> int:
    """Add an agent."""
    name = require_name(parser, options, "an agent")
    if NAME_PATTERN.fullmatch(name) is None:
        parser.error(NAME_RULE)
    command = options.command or next((list(known.command) for known in KNOWN_AGENTS if known.name == name), [])
    if not command:
        parser.error(f"{name} is not a well-known agent: give its command, as in: add {name} -- my-agent --acp")
    pairs = [pair.partition("=") for pair in options.env]
    if not all(variable and equals for variable, equals, _ in pairs):
        parser.error("--env takes NAME=VALUE")
    path = user_paths().config_file
    agent = NamedAgent(
        name=name,
        command=command[0],
        args=tuple(command[1:]),
        env={variable: value for variable, _, value in pairs},
        cwd=os.path.abspath(os.path.expanduser(options.cwd)) if options.cwd else "",
        dialect=options.dialect,
        mode=options.mode,
        sandbox=options.sandbox,
    )
    config.add_entry(path, agent)
    if options.default:
        config.set_default(path, "agents", name)
    if not _is_installed(agent):
        print(f"{parser.prog}: warning: {command[0]} is not on PATH", file=sys.stderr)
    return report(options, {"added": name, "file": path}, f"added {name} to {path}; try: dragoman chat --agent {name}")


def set_default_agent(parser: Parser, options: argparse.Namespace) -> int:
    """Set the default agent."""
    path = user_paths().config_file
    if options.name is None and not options.command:
        config.set_default(path, "agents", "")
        return report(options, {"default": None}, "there is no default agent now")
    known = config.load_config(path)
    found = which_agent.find_agents_on_path().get(options.name or "")
    if options.name not in known.agents and found is not None:
        config.add_entry(path, found)  # a well-known agent is also added
    name = _find_configured(parser, options)
    if name is None:
        return exit_codes.FAILED
    config.set_default(path, "agents", name)
    return report(options, {"default": name}, f"the default agent is {name}")


def _find_configured(parser: Parser, options: argparse.Namespace) -> str | None:
    if options.command:
        parser.error(f"{options.action} takes a name and no command")
    return find_name(parser, options, "an agent", config.load_config(user_paths().config_file).agents)


def _is_installed(agent: NamedAgent) -> bool:
    return shutil.which(agent.argv[0]) is not None


_ACTIONS = {
    "list": Action(list_agents, "list", "list configured agents and well-known agents on PATH (the default)"),
    "add": Action(add_agent, "add NAME [-- CMD ARG...]", "add an agent; a well-known agent needs only its name"),
    "remove": Action("agents.remove:run", "remove NAME", "remove an agent, and the files that install brought"),
    "search": Action("agents.search:run", "search [WORD...]", "find agents in the registry, also by what they can do"),
    "show": Action("agents.show:run", "show ID", "show one agent of the registry: downloads, hashes, capabilities"),
    "install": Action("agents.install:run", "install ID[@VERSION]", "install an agent of the registry"),
    "update": Action("agents.update:run", "update [NAME...]", "install newer versions, or go back (--to)"),
    "lock": Action("agents.lock:run", "lock [FILE]", "write or compare agents.lock, for a team"),
    "verify": Action("agents.verify:run", "verify [NAME...]", "compare installed agents with their lock, byte by byte"),
    "doctor": Action("agents.doctor:run", "doctor", "check node, uv, Python, sandbox, registries and agents"),
    "default": Action(set_default_agent, "default [NAME]", "set the default agent; without NAME: no default"),
    "package": Action("agents.package:main", "package --for KIND DIR", "make the files that publish an agent"),
}
