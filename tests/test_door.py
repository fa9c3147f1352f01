"""The public API: its names are sorted, documented and exist, and importing it is cheap."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

door = importlib.import_module("dragoman")

# Every editor pays for these at every start of an agent, so nothing on the way in may need them. What the
# interpreter, asyncio and msgspec load by themselves is not ours to forbid.
EXPENSIVE = {
    "argparse", "dataclasses", "http", "inspect", "rich", "socketserver", "sqlite3", "ssl", "subprocess",
    "urllib.request",
}  # fmt: skip


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after one statement."""
    script = f"{statement}\nimport sys\nprint(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(run.stdout.split())


def reading_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by the alphabet: as ruff sorts `__all__`."""
    if name.isupper():
        return 0, name
    return (1 if name[0].isupper() else 2), name


def test_the_door_is_in_order() -> None:
    assert door.__all__, "the door is empty"
    assert list(door.__all__) == sorted(set(door.__all__), key=reading_order)


def test_every_name_is_there_and_says_what_it_is() -> None:
    assert door.__doc__
    documented = (type, types.FunctionType, types.ModuleType)
    silent = [
        name
        for name in door.__all__
        if isinstance(thing := getattr(door, name), documented) and not (thing.__doc__ or "").strip()
    ]
    assert silent == []


def test_every_name_is_in_the_listing() -> None:
    assert set(door.__all__) <= set(dir(door))


def test_opening_the_door_imports_nothing_expensive() -> None:
    unavoidable = loaded_by("import asyncio, msgspec")
    assert EXPENSIVE & loaded_by("import dragoman") - unavoidable == set()
    assert EXPENSIVE - unavoidable, "the list has become empty: nothing is checked"


# What `run` and `agent` do without on one machine. What only a host, a remote agent, an MCP server or a failure needs
# is loaded when it is needed.
NOT_FOR_LOCAL_WORK = {
    "email", "http.client", "httpx", "mcp", "prompt_toolkit", "pygments", "rich", "socketserver", "textual",
    "urllib.request", "uvicorn", "websockets", "dragoman.cli.host_client", "dragoman.host", "dragoman.registry",
    "dragoman.transport.remote", "dragoman.web",
}  # fmt: skip


AGENT = [str(Path(sys.executable).with_name("dragoman")), "agent", "everything"]
RUN = [AGENT[0], "run", "--prompt", "hi"]


@pytest.mark.parametrize("command", [AGENT, [*RUN, "--", *AGENT], [*RUN, "--no-store", "--", *AGENT]])
def test_a_command_on_this_machine_loads_nothing_of_hosts(command: list[str], tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")},
    )  # fmt: skip
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines() if line.startswith("import time:")}
    assert "dragoman.engine.connection" in loaded
    assert NOT_FOR_LOCAL_WORK & loaded == set()


def test_opening_the_door_does_not_load_the_faces() -> None:
    faces = ("dragoman.tui", "dragoman.web", "dragoman.cli", "dragoman.agents", "dragoman.testing")
    assert {name for name in loaded_by("import dragoman") if name.startswith(faces)} == set()
