"""What the commands about registries work with: the indexes, the files and the network of one command."""

from __future__ import annotations

import argparse
import os
from functools import cached_property
from typing import TYPE_CHECKING

from dragoman.config.config_file import load_config
from dragoman.config.introductions import Introductions
from dragoman.config.paths import UserPaths, user_paths
from dragoman.config.registry_section import RegistrySection
from dragoman.registry.index.sources import Catalog, load_catalog
from dragoman.registry.install.records import Installed, configured_installs

if TYPE_CHECKING:
    from dragoman.registry.fetch.http import Http

OFFLINE_VARIABLE = "DRAGOMAN_OFFLINE"


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
        self.refresh = given.refresh
        self.ca = given.ca or self.section.ca

    @cached_property
    def http(self) -> Http:
        """The HTTP client."""
        from dragoman.registry.fetch.address import origin_of
        from dragoman.registry.fetch.http import Http

        named = [*self.urls, *self.section.mirror.values()]
        trusted = frozenset(origin_of(url) for url in named if url.startswith("http://"))
        return Http(ca=self.ca, trusted_http=trusted, mirrors=self.section.mirror, offline=self.is_offline)

    @cached_property
    def catalog(self) -> Catalog:
        """The indexes; fetched if they are old."""
        cache = os.path.join(self.paths.cache, "registry")
        return load_catalog(self.urls, cache, lambda: self.http, offline=self.is_offline, refresh=self.refresh)

    @cached_property
    def kept_catalog(self) -> Catalog:
        """The indexes as they are kept on this machine, or as they ship; nothing is fetched."""
        cache = os.path.join(self.paths.cache, "registry")
        return load_catalog(self.urls, cache, lambda: self.http, offline=True)

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
