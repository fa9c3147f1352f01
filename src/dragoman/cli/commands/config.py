"""`dragoman config`: where everything of the user's is, what holds now, and whether the files are in order."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from typing import Any

import msgspec

from dragoman.cli.connect import which_agent
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config import config_file as config
from dragoman.config.host_section import HostSection, store_address
from dragoman.config.paths import UserPaths, project_policy_path, user_paths
from dragoman.config.policy_files import PolicyLoader
from dragoman.errors import ConfigFault

EXIT_FAULTY = 1

# Variables that change what we do.
VARIABLES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "NO_COLOR", "TERM")

# Those whose values are nobody's business.
SECRET_VARIABLES = ("DRAGOMAN_TOKEN",)

# What comes along with an extra: the module it brings.
EXTRAS = {"tui": "prompt_toolkit", "host": "uvicorn"}

EPILOG = """\
  show     the places of all files, and what holds now (also without a word)
  path     the path of config.toml, and nothing else
  check    read config.toml and the policy files, and tell every fault with its line

config.toml has the user's agents, what `dragoman serve` does ([host], docs/host.md) and hosts by name:

  version = 1
  default = "opencode"
  store = true                 # whether sessions are kept

  [agents.opencode]
  command = "opencode"
  args = ["acp"]
  env = { OPENCODE_DISABLE_AUTOUPDATE = "1" }
  cwd = "/home/me/project"     # where it works; without it, wherever you are
  dialect = "auto"
  mode = "plan"                # the agent's own mode to begin in
  sandbox = false

  [host]
  agents = ["opencode"]
  roots = ["~/projects"]       # where sessions of remote users may work
  bind = "127.0.0.1:7437"

  [hosts.office]
  url = "https://office.example:7437"
  token_file = "~/.config/dragoman/tokens/office"

exit codes:
  0  in order      1  a file has faults      2  wrong usage

examples:
  dragoman config
  $EDITOR "$(dragoman config path)"
  dragoman config check
  dragoman config show --json"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then do the one thing."""
    parser = Parser("config", "[show|path|check] [--json]", "Where your settings are, and what they say.", EPILOG)
    parser.add_argument("action", nargs="?", default="show", choices=("show", "path", "check"), help="what to do")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command")
    here = user_paths()
    if options.action == "path":
        print(json.dumps({"path": here.config_file}) if options.json else here.config_file)
        return 0
    return (show_config if options.action == "show" else check_config)(here, options)


def file_paths(paths: UserPaths) -> dict[str, str]:
    """What is kept where."""
    return {
        "agents": paths.config_file,
        "policy": paths.policy,
        "project policy": project_policy_path(os.getcwd()),
        "grants": paths.grants,
        "trust": paths.trust,
        "audit": paths.audit,
        "history": paths.history,
        "sessions": paths.sessions,
        "tokens": paths.host_database,
    }


def show_config(paths: UserPaths, options: Any) -> int:
    """Places and values."""
    faults = find_faults(paths)
    try:
        known = config.load_config(paths.config_file)
    except ConfigFault:
        known = config.Config()
    rows = which_agent.available_agents(known)
    candidates = list(known.agents) or [agent.name for agent, _ in rows]
    meant = known.default or (candidates[0] if len(candidates) == 1 else "")
    mode = PolicyLoader(paths)((os.path.realpath(os.getcwd()),)).mode
    variables = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    variables |= {name: "set" for name in SECRET_VARIABLES if name in os.environ}
    extras = {name: find_spec(module) is not None for name, module in EXTRAS.items()}
    if options.json:
        _print_json(
            {
                "files": {
                    name: {"path": path, "exists": os.path.exists(path)} for name, path in file_paths(paths).items()
                },
                "agent": meant or None,
                "agents": [agent.name for agent, _ in rows],
                "policyMode": mode,
                "host": msgspec.to_builtins(known.host),
                "hosts": list(known.hosts),
                "defaultHost": known.default_host or None,
                "extras": extras,
                "environment": variables,
                "faults": faults,
            }
        )
        return EXIT_FAULTY if faults else 0
    for name, path in file_paths(paths).items():
        print(f"{name:15} {sanitize_line(path)}{'' if os.path.exists(path) else '  (not there)'}")
    print(f"{'agent':15} {meant or 'none by default; see dragoman agents'}")
    print(f"{'policy mode':15} {mode}")
    print(f"{'host listens':15} {sanitize_line(known.host.bind)}{' (TLS)' if known.host.tls else ''}")
    for name, value in changed_host_settings(known.host).items():
        print(f"{f'host {name}':15} {sanitize_line(value)}")
    if known.hosts:
        print(f"{'hosts':15} {', '.join(known.hosts)} ({known.default_host or 'this machine'} by default)")
    for name, is_there in extras.items():
        print(f"{f'extra {name}':15} {'installed' if is_there else f'not installed: pip install dragoman[{name}]'}")
    for name, value in variables.items():
        print(f"{name:15} {sanitize_line(value)}")
    return _print_faults(faults)


def changed_host_settings(host: HostSection) -> dict[str, str]:
    """What the user said about the host, as far as it is not what holds anyway."""
    usual = HostSection()
    said = {name: getattr(host, name) for name in HostSection.__struct_fields__ if name not in ("bind", "tls")}
    return {
        name: json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        for name, value in said.items()
        if value != getattr(usual, name)
    }


def check_config(paths: UserPaths, options: Any) -> int:
    """Tell every fault."""
    faults = find_faults(paths)
    if options.json:
        _print_json({"faults": faults})
        return EXIT_FAULTY if faults else 0
    if not faults:
        print("in order")
    return _print_faults(faults)


def find_faults(paths: UserPaths) -> list[str]:
    """What is wrong in the user's files."""
    faults: list[str] = []
    readers = (
        lambda: check_host_section(config.load_config(paths.config_file).host),
        lambda: check_host_agents(config.load_config(paths.config_file)),
        lambda: PolicyLoader(paths).load((os.path.realpath(os.getcwd()),)),
    )
    for read in readers:
        try:
            read()
        except ConfigFault as fault:
            faults += [each for each in fault.faults if each not in faults]
    return faults


def check_host_section(host: HostSection) -> None:
    """Look at what only a host makes sense of: names of limits, folders, where sessions are kept, whom it trusts."""
    if host != HostSection():
        from dragoman.host import settings
        from dragoman.host.auth.oidc import settings_faults as distrusted

        settings.endpoint_limits(host)
        settings.roots_lookup(host)
        store_address(host.store, user_paths())
        trust = settings.oidc_settings(host)
        if faults := [] if trust is None else distrusted(trust):
            raise ConfigFault([f"host.issuer: {fault}" for fault in faults])


def check_host_agents(configured: config.Config) -> None:
    """The agents that a host is to serve are configured, or on PATH."""
    there = [agent.name for agent, _ in which_agent.available_agents(configured)]
    unknown = [name for name in configured.host.agents if name not in there]
    if unknown:
        raise ConfigFault(
            [f"host.agents: there is no agent {name!r}; there are: {', '.join(there) or 'none'}" for name in unknown]
        )


def _print_faults(faults: list[str]) -> int:
    for fault in faults:
        print(sanitize_line(fault), file=sys.stderr)
    return EXIT_FAULTY if faults else 0


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))
