"""`dragoman agents remove`: remove an agent, and the files that `install` brought."""

from __future__ import annotations

import argparse

from dragoman.cli.agents.options import EXIT_CODES_HELP, RegistryParser, run_reported
from dragoman.cli.parser import Parser, unknown_name
from dragoman.cli.registry.installer import Installer
from dragoman.cli.registry.registries import Registries
from dragoman.cli.ui.format import report
from dragoman.config import config_file
from dragoman.registry.fault import RegistryFault
from dragoman.registry.install.remove import processes_using, removable, remove_agent

HELP = f"""\
Removes the agent from config.toml. If it was installed from a registry, also
the folders of all its versions; you are asked first. What the agent itself
keeps in your home (logins, settings, history) stays.

{EXIT_CODES_HELP}

examples:
  dragoman agents remove gemini
  dragoman agents remove gemini --keep-files --yes"""


def run(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then remove."""
    parser = RegistryParser(name, "NAME [OPTIONS]", "Remove an agent.", HELP)
    parser.add_argument("name", metavar="NAME", help="a name of `dragoman agents`")
    parser.add_flag("--keep-files", "only remove it from config.toml")
    parser.add_flag("-y --yes", "do not ask")
    options, command = parser.read(arguments)
    if command:
        parser.error("remove takes a name and no command")
    return run_reported(parser, options, lambda: _remove(parser, options))


def _remove(parser: Parser, options: argparse.Namespace) -> int:
    registries = Registries(options)
    name, paths = options.name, registries.paths
    configured = registries.config.agents
    if name not in configured:
        return parser.fail(unknown_name("agent", name, configured))
    if name not in registries.installed:
        config_file.remove_entry(paths.config_file, "agents", name)
        return report(options, {"removed": name}, f"removed {name}")
    folders = [each.folder for each in removable(name, paths)]
    running = processes_using(folders)
    if running and not options.keep_files:
        raise RegistryFault(
            "used", f"{name} is running (process {', '.join(map(str, running))}); end its sessions first", pids=running
        )
    if not options.keep_files:
        lines = [("remove", name, "bold"), *(("folder", folder, "") for folder in folders)]
        fault = RegistryFault("declined", f"nothing was removed; to remove it: dragoman agents remove {name} --yes")
        Installer(registries, yes=options.yes, quiet=True).ask(lines, "remove it", fault)
    removed = remove_agent(name, paths, keep_files=options.keep_files)
    lines_out = [f"removed {name}", *(f"removed {folder}" for folder in removed)]
    return report(options, {"removed": name, "folders": removed}, lines_out)
