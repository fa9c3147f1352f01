"""`python -m interop.installs`: install agents of the registry by one word, start them without a network, ask each.

Takes the words below; prints a table. An agent passes if it was installed, answers initialize offline, and, where the
fake model can serve it, completes a turn. Exits 0 only if enough agents pass. `--only WORD` tries some.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dragoman import connect
from dragoman.config.config_file import NamedAgent, load_config
from dragoman.errors import DragomanError
from interop import loopback
from interop.cells import CELLS
from interop.counterparts import AGENTS, Counterpart, Place
from interop.install import CACHE, INSTALLING
from interop.model.server import Model
from interop.run import LOGS, environment, make_home, run_cell, tell

HOME = CACHE / "registry"
# Agents of the snapshot that npm or PyPI have, by the word that a user types.
WORDS = (
    "auggie", "claude", "cline", "codex", "copilot", "droid", "gemini", "grok", "kilo", "minion-code", "pi", "qoder",
    "qwen",
)  # fmt: skip
# Those that docs/protocol/peers.md says how to give the fake model to.
WITH_MODEL = {"claude": "claude-agent-acp", "gemini": "gemini-cli", "qwen": "qwen-code", "copilot": "copilot"}
ENOUGH = 12
# The slowest needs 20 s on a busy machine. Seconds.
STARTING = 120.0


class Row(NamedTuple):
    """What became of one word; an empty text is a success."""

    word: str
    version: str = ""
    install: str = ""
    start: str = ""
    turn: str = "no model"

    @property
    def passes(self) -> bool:
        """Whether everything that was tried worked."""
        return bool(self.version) and not self.install and not self.start and self.turn in ("", "no model")


def dragoman_environment() -> dict[str, str]:
    """The environment of `dragoman agents`: folders of its own, the user's npm and pip configuration."""
    places = {f"XDG_{name}_HOME": str(HOME / name.lower()) for name in ("CONFIG", "STATE", "DATA", "CACHE")}
    return {**os.environ, **places}


def install(word: str) -> tuple[str, str]:
    """Install by one word; return the version, or why it failed."""
    command = [sys.executable, "-m", "dragoman", "agents", "install", word, "--yes", "--json"]
    env = dragoman_environment()
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=INSTALLING)
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or ["no output"]
        return "", f"exit code {ended.returncode}: {lines[0]}"
    return str(json.loads(ended.stdout)["version"]), ""


def installed_agents() -> Mapping[str, NamedAgent]:
    """The installed agents by name."""
    return load_config(str(HOME / "config" / "dragoman" / "config.toml")).agents


async def initialize(argv: list[str], env: dict[str, str], folder: Path) -> str:
    """Start an agent; return why it did not answer, or nothing."""
    try:
        async with connect(argv, cwd=str(folder), env=env, inherit_env=False, initialize_timeout=STARTING):
            return ""
    except (DragomanError, TimeoutError) as error:
        return str(error).splitlines()[0]


def judge(word: str, version: str, agent: NamedAgent, base: dict[str, str], model: Model, temporary: Path) -> Row:
    """Start an installed agent without a network, and let it complete a turn if it has a model."""
    argv = agent.argv
    plain = Counterpart(word, "registry", (f"{word}@{version}",), lambda _: argv)
    known = next((each for each in AGENTS if each.name == WITH_MODEL.get(word)), None)
    counterpart = plain if known is None else replace(known, name=word, command=lambda _: argv)
    home = temporary / word
    env = {**make_home(counterpart, Place(HOME, model.url(word)), home, base), **agent.env}
    work = home / "start"
    work.mkdir(parents=True)
    start = asyncio.run(initialize(argv, env, work))
    if start or known is None:
        return Row(word, version, start=start)
    cell = next(cell for cell in CELLS if cell.name == "prompt")
    verdict, _ = run_cell(cell, counterpart, Place(HOME, model.url(word)), home, env, False)
    return Row(word, version, turn="" if verdict.passed else verdict.progress_line)


def main() -> int:
    """Install all words, leave the network, try them all, print the table."""
    parser = argparse.ArgumentParser(prog="python -m interop.installs", description=__doc__)
    parser.add_argument("--only", action="append", choices=WORDS, metavar="WORD", help=", ".join(WORDS))
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    for word in options.only or WORDS:
        begun = time.monotonic()
        version, failure = install(word)
        rows[word] = Row(word, version, install=failure)
        tell(f"{word:12} {failure or f'installed {version}'}  {time.monotonic() - begun:.0f} s")
    agents = installed_agents()
    alone = loopback.enter()
    tell("network: only loopback" if alone else "network: no namespace to be had; proxies point to a closed port")
    LOGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="interop-") as temporary, Model(LOGS) as model:
        for word, row in rows.items():
            if not row.install:
                base = environment(Path(agents[word].command).parent, alone)
                rows[word] = judge(word, row.version, agents[word], base, model, Path(temporary))
            row = rows[word]
            outcome = row.install or row.start or row.turn
            tell(f"{word:12} {row.version:12} {'passed' if row.passes else 'FAILED'}  {outcome}")
    passed = sum(row.passes for row in rows.values())
    tell(f"{passed} of {len(rows)} agents were installed by one word and work without a network")
    return 0 if passed >= min(ENOUGH, len(rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
