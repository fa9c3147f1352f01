"""The options that the actions about registries share, and what follows from them: files, indexes, network."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from dragoman.cli.parser import Parser
from dragoman.cli.ui.format import print_json
from dragoman.config.config_file import load_config
from dragoman.config.introductions import Introductions
from dragoman.config.paths import UserPaths, user_paths
from dragoman.config.registry_section import RegistrySection
from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.sources import Catalog, load_catalog
from dragoman.registry.install.records import Installed, configured_installs

if TYPE_CHECKING:
    from dragoman.registry.fetch.http import Http

OFFLINE_VARIABLE = "DRAGOMAN_OFFLINE"

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


class Registries:
    """The indexes, files and network of one command."""

    def __init__(self, options: argparse.Namespace | None = None) -> None:
        """Without options: those of config.toml and the environment."""
        self.paths: UserPaths = user_paths()
        self.config = load_config(self.paths.config_file)
        self.section: RegistrySection = self.config.registry
        given = options or argparse.Namespace(registry=[], offline=False, refresh=False, ca="")
        self.urls: tuple[str, ...] = tuple(given.registry) or self.section.urls
        self.is_offline = given.offline or os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")
        self._refresh = given.refresh
        self._ca = given.ca or self.section.ca

    @cached_property
    def http(self) -> Http:
        """The HTTP client."""
        from dragoman.registry.fetch.address import origin_of
        from dragoman.registry.fetch.http import Http

        named = [*self.urls, *self.section.mirror.values()]
        trusted = frozenset(origin_of(url) for url in named if url.startswith("http://"))
        return Http(ca=self._ca, trusted_http=trusted, mirrors=self.section.mirror, offline=self.is_offline)

    @cached_property
    def catalog(self) -> Catalog:
        """The indexes; fetched if they are old."""
        cache = os.path.join(self.paths.cache, "registry")
        return load_catalog(self.urls, cache, lambda: self.http, offline=self.is_offline, refresh=self._refresh)

    @cached_property
    def installed(self) -> dict[str, Installed]:
        """The configured agents that were installed from a registry, by name."""
        return configured_installs(self.paths.agents, self.config.agents)

    @property
    def installed_ids(self) -> list[str]:
        """The ids of the installed agents."""
        return [each.record.id for each in self.installed.values()]

    @cached_property
    def introductions(self) -> Introductions:
        """What agents said of themselves here."""
        return Introductions(self.paths.introductions)


def run_reported(parser: Parser, options: argparse.Namespace, action: Callable[[], int]) -> int:
    """Run an action; a fault is one line, or JSON, and its exit code."""
    try:
        return action()
    except RegistryFault as fault:
        if options.json:
            print_json({"error": {"kind": fault.why, "message": str(fault), **fault.details}})
        return parser.fail(str(fault), fault.exit_code)
