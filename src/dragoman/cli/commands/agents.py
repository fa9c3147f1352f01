"""`dragoman agents`: those that are configured, those that were found, and how to keep one under a name."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

from dragoman.cli.connect import which_agent
from dragoman.cli.parser import Parser
from dragoman.config import config_file as config
from dragoman.config.config_file import NAME_PATTERN, NAME_RULE, NamedAgent
from dragoman.config.known_agents import KNOWN_AGENTS
from dragoman.config.paths import user_paths
from dragoman.dialect.dialects import DIALECT_NAMES

EXIT_UNKNOWN = 1

EPILOG = """\
  list                     those that are configured, and well-known ones on PATH (also without a word)
  add NAME [-- CMD ARG...] keep a command under a name; a well-known agent needs only its name
  remove NAME              forget it
  default [NAME]           which one is meant when none is named; without a name: none

Every command that starts an agent takes --agent NAME. Without it the default is meant, else the only agent that is
configured, else the only one on PATH. The names are kept in config.toml; `dragoman config path` says where.

exit codes:
  0  done      1  there is no such agent, or the file has a fault      2  wrong usage

examples:
  dragoman agents
  dragoman agents add opencode
  dragoman agents add mine --env API_KEY=secret --cwd ~/project -- my-agent --acp
  dragoman agents default mine
  dragoman agents --json"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then do the one thing."""
    parser = Parser(
        "agents",
        "[list|add|remove|default] [NAME] [OPTIONS] [-- CMD ARG...]",
        "Agents by name: list them, add one, remove one, choose the default.",
        EPILOG,
    )
    parser.add_argument("action", nargs="?", default="list", choices=tuple(_ACTIONS), help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="add, remove, default: which")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="add: set a variable for it")
    parser.add_argument("--cwd", metavar="DIR", default="", help="add: where it works; else wherever you are")
    parser.add_argument("--dialect", default="auto", choices=("auto", *DIALECT_NAMES), help="add: what it speaks")
    parser.add_argument("--mode", metavar="ID", default="", help="add: the agent's own mode to begin in")
    parser.add_argument("--sandbox", action="store_true", help="add: always start it in the sandbox")
    parser.add_argument("--default", action="store_true", help="add: and make it the default")
    parser.add_argument("--names", action="store_true", help="list: only the names")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options, command = parser.read(arguments)
    return _ACTIONS[options.action](parser, options, command)


def list_agents(parser: Parser, options: Any, command: list[str]) -> int:
    """What there is."""
    if options.name or command:
        parser.error("list takes no name")
    path = user_paths().config_file
    known = config.load_config(path)
    rows = which_agent.available_agents(known)
    if options.names:
        print("\n".join(agent.name for agent, _ in rows))
    elif options.json:
        _print_json(
            {
                "file": path,
                "default": known.default or None,
                "agents": [agent_to_json(agent, why) for agent, why in rows],
            }
        )
    else:
        for line in which_agent.format_agents(rows):
            print(line)
        if not rows:
            print("No agent is configured, and none of the well-known ones is on PATH. Those are:")
            width = max(len(each.name) for each in KNOWN_AGENTS)
            for each in KNOWN_AGENTS:
                print(f"  {each.name:{width}}  {' '.join(each.command)}  ({each.source})")
            print("Any other that speaks the protocol: dragoman agents add NAME -- CMD ARG...")
    return 0


def agent_to_json(agent: NamedAgent, source: str) -> dict[str, Any]:
    """An agent for machines; the values of its variables stay in the file."""
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


def add_agent(parser: Parser, options: Any, command: list[str]) -> int:
    """Keep an agent under a name."""
    name = _required_name(parser, options)
    if NAME_PATTERN.fullmatch(name) is None:
        parser.error(NAME_RULE)
    if not command:
        command = next((list(known.command) for known in KNOWN_AGENTS if known.name == name), [])
    if not command:
        parser.error(f"{name} is no well-known agent: say how it is started, as in: add {name} -- my-agent --acp")
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
    config.add_agent(path, agent)
    if options.default:
        config.set_default_agent(path, name)
    if not _is_installed(agent):
        print(f"{parser.prog}: note that {command[0]} is not on PATH now", file=sys.stderr)
    return _print_result(
        options, {"added": name, "file": path}, f"{name} is in {path}; try: dragoman chat --agent {name}"
    )


def remove_agent(parser: Parser, options: Any, command: list[str]) -> int:
    """Forget an agent."""
    name = _configured_name(parser, options, command)
    if name is None:
        return EXIT_UNKNOWN
    config.remove_agent(user_paths().config_file, name)
    return _print_result(options, {"removed": name}, f"{name} is no longer configured")


def set_default_agent(parser: Parser, options: Any, command: list[str]) -> int:
    """Choose which one is meant when none is named."""
    path = user_paths().config_file
    if options.name is None and not command:
        config.set_default_agent(path, "")
        return _print_result(options, {"default": None}, "there is no default agent")
    known = config.load_config(path)
    found = which_agent.find_agents_on_path().get(options.name or "")
    if options.name not in known.agents and found is not None:
        config.add_agent(path, found)  # choosing a well-known one keeps it
    name = _configured_name(parser, options, command)
    if name is None:
        return EXIT_UNKNOWN
    config.set_default_agent(path, name)
    return _print_result(options, {"default": name}, f"{name} is meant when no agent is named")


def _required_name(parser: Parser, options: Any) -> str:
    if options.name is None:
        parser.error(f"{options.action} which one? say its name")
    return str(options.name)


def _configured_name(parser: Parser, options: Any, command: list[str]) -> str | None:
    name = _required_name(parser, options)
    if command:
        parser.error(f"{options.action} takes a name and no command")
    known = config.load_config(user_paths().config_file).agents
    if name in known:
        return name
    print(f"{parser.prog}: there is no agent {name!r}; there are: {', '.join(known) or 'none'}", file=sys.stderr)
    return None


def _is_installed(agent: NamedAgent) -> bool:
    return shutil.which(agent.argv[0]) is not None


def _print_result(options: Any, json_value: dict[str, Any], text: str) -> int:
    if options.json:
        _print_json(json_value)
    else:
        print(text)
    return 0


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))


_ACTIONS = {"list": list_agents, "add": add_agent, "remove": remove_agent, "default": set_default_agent}
