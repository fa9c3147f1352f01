"""`dragoman config`: where the user's files are, the effective settings, and errors in the files."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.connect import which_agent
from dragoman.cli.parser import Parser
from dragoman.cli.subcommands import Action, CommandGroup
from dragoman.cli.ui.format import report
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config import config_file as config
from dragoman.config.host_section import HostSection, store_address
from dragoman.config.paths import UserPaths, project_policy_path, user_paths
from dragoman.config.policy_files import PolicyLoader
from dragoman.errors import ConfigFault, StartFailed

# Environment variables that change our behavior.
VARIABLES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "NO_COLOR", "TERM")

# Variables whose values are not shown.
SECRET_VARIABLES = ("DRAGOMAN_TOKEN",)

# Extras, and a module of each.
EXTRAS = {
    "tui": "prompt_toolkit",
    "host": "uvicorn",
    "web": "uvicorn",
    "mcp": "mcp",
    "postgres": "asyncpg",
    "nats": "nats",
    "attest": "pypi_attestations",
    "otel": "opentelemetry",
}

EPILOG = """\
config.toml holds your agents, the settings of `dragoman serve` ([host], see
docs/host.md) and named hosts:

  version = 1
  default = "opencode"
  store = true                 # whether sessions are stored

  [agents.opencode]
  command = "opencode"
  args = ["acp"]
  env = { OPENCODE_DISABLE_AUTOUPDATE = "1" }
  cwd = "/home/me/project"     # working directory; without it, where you are
  dialect = "auto"
  mode = "plan"                # start in this mode of the agent
  sandbox = false

  [host]
  agents = ["opencode"]
  roots = ["~/projects"]       # where sessions of remote users may work
  bind = "127.0.0.1:7437"

  [hosts.office]
  url = "https://office.example:7437"
  token_file = "~/.config/dragoman/tokens/office"

exit codes:
  0  no errors
  1  a file has errors
  2  wrong usage

examples:
  dragoman config
  $EDITOR "$(dragoman config path)"
  dragoman config check
  dragoman config show --json"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then run the action."""
    parser = CommandGroup(
        "config", "[ACTION] [--json]", "Show and check your configuration.", _ACTIONS, EPILOG, default="show"
    )
    parser.add_flag("--json", "print JSON")
    return parser.run(arguments)


def print_path(_: Parser, options: argparse.Namespace) -> int:
    """Print the path of config.toml."""
    path = user_paths().config_file
    print(json.dumps({"path": path}) if options.json else path)
    return exit_codes.OK


def file_paths(paths: UserPaths) -> dict[str, str]:
    """Return the paths of all files."""
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


def show_config(_: Parser, options: argparse.Namespace) -> int:
    """Show paths and effective settings."""
    paths = user_paths()
    faults = find_faults(paths)
    try:
        known = config.load_config(paths.config_file)
    except ConfigFault:
        known = config.Config()
    rows = which_agent.available_agents(known)
    candidates = list(known.agents) or [agent.name for agent, _ in rows]
    default_agent = known.default or (candidates[0] if len(candidates) == 1 else "")
    mode = PolicyLoader(paths)((os.path.realpath(os.getcwd()),)).mode
    variables = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    variables |= {name: "set" for name in SECRET_VARIABLES if name in os.environ}
    extras = {name: find_spec(module) is not None for name, module in EXTRAS.items()}
    files = {name: {"path": path, "exists": os.path.exists(path)} for name, path in file_paths(paths).items()}
    settings = {
        "files": files,
        "agent": default_agent or None,
        "agents": [agent.name for agent, _ in rows],
        "policyMode": mode,
        "host": msgspec.to_builtins(known.host),
        "hosts": list(known.hosts),
        "defaultHost": known.default_host or None,
        "extras": extras,
        "environment": variables,
        "faults": faults,
    }
    values = {name: f"{file['path']}{'' if file['exists'] else '  (does not exist)'}" for name, file in files.items()}
    values["agent"] = default_agent or "no default; see dragoman agents"
    values["policy mode"] = mode
    values["host listens"] = f"{known.host.bind}{' (TLS)' if known.host.tls else ''}"
    values |= {f"host {name}": value for name, value in changed_host_settings(known.host).items()}
    if known.hosts:
        values["hosts"] = f"{', '.join(known.hosts)} ({known.default_host or 'this machine'} by default)"
    for name, is_installed in extras.items():
        values[f"extra {name}"] = "installed" if is_installed else f"not installed: pip install 'dragoman[{name}]'"
    report(options, settings, (f"{name:15} {value}" for name, value in (values | variables).items()))
    return _report_faults(options, faults)


def changed_host_settings(host: HostSection) -> dict[str, str]:
    """Return the settings of the host that differ from the defaults."""
    defaults = HostSection()
    configured = {name: getattr(host, name) for name in HostSection.__struct_fields__ if name not in ("bind", "tls")}
    return {
        name: json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        for name, value in configured.items()
        if value != getattr(defaults, name)
    }


def check_config(_: Parser, options: argparse.Namespace) -> int:
    """Print every error."""
    faults = find_faults(user_paths())
    report(options, {"faults": faults}, [] if faults else "no errors")
    return _report_faults(options, faults)


def find_faults(paths: UserPaths) -> list[str]:
    """Return the errors in the user's files."""
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
            named = [f"{paths.config_file}: {each}" if each.startswith("host.") else each for each in fault.faults]
            faults += [each for each in named if each not in faults]
    return faults


def check_host_section(host: HostSection) -> None:
    """Check what only a host interprets, each setting on its own: limits, folders, addresses, files, the issuer."""
    faults: list[str] = []
    for name, check in _host_checks(host).items() if host != HostSection() else ():
        try:
            check()
        except ConfigFault as fault:
            flag = f"--{name.replace('_', '-')}: "
            faults += [_under(f"host.{name}", each.removeprefix(flag)) for each in fault.faults]
        except StartFailed as error:
            faults.append(f"host.{name}: {error}")
    if faults:
        raise ConfigFault(faults)


def _under(setting: str, fault: str) -> str:
    """Return the text of a fault with the setting before it, if it names none."""
    return fault if fault.startswith("host.") else f"{setting}: {fault}"


def _host_checks(host: HostSection) -> dict[str, Callable[[], object]]:
    """Return what checks each setting of a host as its start does; it raises ConfigFault or StartFailed."""
    from dragoman.cli.connect import mcp_file
    from dragoman.cli.serve.fleet import check_fleet_settings
    from dragoman.cli.serve.process import tls_files
    from dragoman.host import settings
    from dragoman.host.auth.oidc import settings_faults
    from dragoman.store.sealing import read_key
    from dragoman.transport.remote.server.listener import server_tls_context
    from dragoman.transport.remote.server.origin import parse_bind

    paths, files, no_flags = user_paths(), tls_files(host), argparse.Namespace()
    no_flags.trust_engine = no_flags.allow_drift = no_flags.grace = False

    def check_issuer() -> None:
        if faults := [] if host.issuer is None else settings_faults(host.issuer):
            raise ConfigFault(faults)

    def check_access_log() -> None:
        folder = os.path.dirname(os.path.expanduser(host.access_log))
        if folder and not os.path.isdir(folder):
            raise ConfigFault([f"the folder {folder} does not exist"])

    return {
        "limits": lambda: settings.endpoint_limits(host),
        "roots": lambda: settings.roots_lookup(host),
        "bind": lambda: parse_bind(host.bind),
        "tls": lambda: files and server_tls_context(*files, host.node_ca if host.mutual_tls else ""),
        "store": lambda: check_fleet_settings(store_address(host.store, paths), host, no_flags),
        "secrets_key": lambda: host.secrets_key and read_key(host.secrets_key),
        "policy": lambda: host.policy and settings.warnings(host, paths),
        "access_log": check_access_log,
        "mcp": lambda: [mcp_file.load(os.path.expanduser(file)) for file in host.mcp],
        "issuer": check_issuer,
    }


def check_host_agents(configured: config.Config) -> None:
    """Check that the agents of the host are configured or on PATH."""
    known = [agent.name for agent, _ in which_agent.available_agents(configured)]
    unknown = [name for name in configured.host.agents if name not in known]
    if unknown:
        raise ConfigFault(
            [f"host.agents: there is no agent {name!r}; known agents: {', '.join(known) or 'none'}" for name in unknown]
        )


def _report_faults(options: argparse.Namespace, faults: list[str]) -> int:
    for fault in [] if options.json else faults:
        print(sanitize_line(fault), file=sys.stderr)
    return exit_codes.FAILED if faults else exit_codes.OK


_ACTIONS = {
    "show": Action(show_config, "show", "show the paths of all files and the effective settings (the default)"),
    "path": Action(print_path, "path", "print only the path of config.toml"),
    "check": Action(check_config, "check", "check config.toml and the policy files; print all errors"),
}
