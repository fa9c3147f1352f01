"""A user for the tests of installs: folders of their own, the stand-ins as npm and PyPI, and the command line."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import main
from dragoman.config.config_file import NamedAgent, load_config
from dragoman.config.paths import user_paths
from tests.registry.packages import publish
from tests.registry.stand_in import Site

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="needs node with npm")


class User:
    """Runs `dragoman agents` in folders of its own."""

    def __init__(self, folder: Path, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.site, self._capsys = folder, site, capsys
        self.index = f"{site.url}/registry.json"
        self.out = self.err = ""

    def publish(self, *entries: dict[str, Any]) -> None:
        """Put entries into the index of the registry."""
        publish(self.site, *entries)

    def run(self, *words: str, refresh: bool = True) -> int:
        """Run an action of `dragoman agents` with this user's registry."""
        extra = ["--registry", self.index, *(["--refresh"] if refresh else [])]
        code = main(["agents", *words, *extra])
        self.out, self.err = self._capsys.readouterr()
        return code

    def install(self, *words: str) -> int:
        """Install without a question."""
        return self.run("install", *words, "--yes")

    def json(self, *words: str) -> Any:
        """Run an action with --json; return what it printed."""
        self.run(*words, "--json")
        return json.loads(self.out)

    def agent(self, name: str) -> NamedAgent:
        """Return an agent of config.toml."""
        return load_config(user_paths().config_file).agents[name]

    @property
    def agents(self) -> Path:
        """The folder of installed agents."""
        return Path(user_paths().agents)

    def listed(self) -> list[str]:
        """Return the folders of all versions, finished or not."""
        return sorted(str(path.relative_to(self.agents)) for path in self.agents.glob("*/*"))


def set_environment(folder: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the tests a home of their own, and the stand-ins as npm and PyPI."""
    for name in list(os.environ):
        if name.lower().startswith(("npm_config_", "uv_", "pip_")):
            monkeypatch.delenv(name)
    for name in ("CONFIG", "STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("npm_config_registry", site.url)
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(folder / "npm"))
    monkeypatch.setenv("npm_config_userconfig", str(folder / ".npmrc"))
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{site.url}/simple")
    monkeypatch.setenv("UV_CACHE_DIR", str(folder / "uv"))
