"""The options that the actions about registries share, and how their faults are reported."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from dragoman.cli.parser import Parser
from dragoman.cli.registry.registries import OFFLINE_VARIABLE
from dragoman.cli.ui.format import print_json
from dragoman.registry.fault import RegistryFault

EXIT_CODES_HELP = """\
exit codes:
    0  done
    1  no such agent, not for this platform, or a difference was found
    2  wrong usage, or a file with an error
    3  node, npm, uv or Python is missing or too old
    4  the version is not there, or too young for your npm
    5  refused: a hash differs, an archive breaks a rule, a script is needed
    6  the agent does not answer
    7  network, or an index that cannot be read
    8  the disk is full, or a folder cannot be written"""


class RegistryParser(Parser):
    """A parser with the options that all actions about registries have."""

    def __init__(self, name: str, usage: str, description: str, epilog: str) -> None:
        super().__init__(name, usage, description, epilog)
        self.add_value(
            "--registry", "URL", "use this index instead: a URL, a file, or a folder; can be repeated", repeated=True
        )
        self.add_flag("--offline", f"use only what is on this machine (or set {OFFLINE_VARIABLE}=1)")
        self.add_flag("--refresh", "fetch the index even if the kept one is less than a day old")
        self.add_value("--ca", "FILE", "trust these certificate authorities too", default="")
        self.add_flag("--json", "print JSON")


def run_reported(parser: Parser, options: argparse.Namespace, action: Callable[[], int]) -> int:
    """Run an action; a fault is one line, or JSON, and its exit code."""
    try:
        return action()
    except RegistryFault as fault:
        if options.json:
            print_json({"error": {"kind": fault.why, "message": str(fault), **fault.details}})
        return parser.fail(str(fault), fault.exit_code, is_json_done=True)
