"""Imports point one way: each folder of src/dragoman uses only those before it in ORDER.

Reads the sources with ast, so that imports inside functions count too. The public API (dragoman/__init__.py)
may import everything; its place in the order decides who may use it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.source_facts import read_facts

SOURCE = Path(__file__).parents[1] / "src" / "dragoman"

# The public API is above the highest layer that it exports; later layers may use it.
ORDER = [
    "errors", "ids", "wire", "schema", "dialect", "transport", "engine", "policy", "session", "store", "config",
    "workspace", "editors", "mcp", "roles", "<door>", "testing", "registry", "packaging", "inspect", "bridge", "web",
    "host", "agents", "conformance", "cli", "tui", "__main__",
]  # fmt: skip
RANK = {layer: rank for rank, layer in enumerate(ORDER)}

# Names that collect what has no place. A noun of the domain says more.
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "shared", "managers", "manager"}

# Layers that take and return values: the caller passes clock, ids and randomness, and does the I/O.
PURE = {"wire", "schema", "dialect", "policy"}
EFFECTS = {
    "asyncio", "http", "multiprocessing", "random", "secrets", "select", "selectors", "socket", "sqlite3",
    "ssl", "subprocess", "threading", "time", "uuid",
}  # fmt: skip

# What the core may import from outside the standard library; uvloop only where it happens to be installed,
# opentelemetry only in inspect/otel.py, when somebody asks for spans; prompt_toolkit only for the line of chat
# and the full screen; pygments only for the colors of code; pytest only
# in the two modules that pytest itself loads; jwt only where a host checks tokens of an issuer;
# httpx and websockets only for remote agents, in transport/remote, and httpx for the keys of an issuer; the MCP SDK and
# what it brings only when an MCP server is opened or offered; asyncpg only in store/postgres, nats
# only in store/nats, and cryptography only where credentials are sealed.
DEPENDENCIES = {
    "anyio", "asyncpg", "cryptography", "h11", "h2", "httpx", "httpx2", "hypercorn", "jwt", "mcp", "mcp_types",
    "msgspec", "nats", "opentelemetry", "prompt_toolkit", "pygments", "pypi_attestations", "pytest", "uvicorn",
    "uvloop", "websockets",
}  # fmt: skip


def layer_of(name: str) -> str | None:
    """The layer a full name belongs to; None for what is not ours."""
    parts = name.split(".")
    if parts[0] != "dragoman":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in RANK else "<door>"


def upward(source: str, module: str) -> list[str]:
    """The imports of a module that do not point down."""
    own = RANK[module.split(".")[1]]
    return [
        f"{module}:{line} imports {name}"
        for line, name in read_facts(source, module).imports
        if (layer := layer_of(name)) is not None and RANK[layer] > own
    ]


def modules() -> list[tuple[str, Path]]:
    """Dotted name and path of every module but the door. A package is called by its __init__."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts != ("__init__",):
            found.append((".".join(("dragoman", *parts)), path))
    return found


def test_every_module_belongs_to_a_layer() -> None:
    assert [module for module, _ in modules() if module.split(".")[1] not in RANK] == []
    assert modules(), "no sources found"


def test_imports_point_down() -> None:
    wrong = [each for module, path in modules() for each in upward(path.read_text(encoding="utf-8"), module)]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "source", "names"),
    [
        (
            "dragoman.wire.frames",
            "from dragoman.engine.router import Router",
            ["dragoman.engine.router.Router"],
        ),
        ("dragoman.wire.frames", "def f():\n    from ..engine import router", ["dragoman.engine.router"]),
        ("dragoman.wire.frames", "import dragoman.cli.main", ["dragoman.cli.main"]),
        ("dragoman.wire.__init__", "from ..schema import methods", ["dragoman.schema.methods"]),
        ("dragoman.engine.router", "from dragoman import Agent, errors", ["dragoman.Agent"]),
        ("dragoman.engine.router", "from . import exchange\nfrom ..wire import frames\nimport asyncio", []),
        ("dragoman.cli.main", "from dragoman import Agent, connect", []),
    ],
)
def test_an_import_that_points_up_is_seen(module: str, source: str, names: list[str]) -> None:
    assert [each.partition(" imports ")[2] for each in upward(source, module)] == names


def test_layers_without_io_import_nothing_that_acts() -> None:
    wrong = [
        f"{module}:{line} imports {name}"
        for module, path in modules()
        if module.split(".")[1] in PURE
        for line, name in read_facts(path.read_text(encoding="utf-8"), module).imports
        if name.split(".")[0] in EFFECTS or name.startswith("urllib.request")
    ]
    assert wrong == []


def test_the_core_depends_on_msgspec_alone() -> None:
    foreign = {
        name.split(".")[0]
        for module, path in modules()
        for _, name in read_facts(path.read_text(encoding="utf-8"), module).imports
    }
    assert foreign - sys.stdlib_module_names - {"dragoman"} <= DEPENDENCIES


def test_the_architecture_page_draws_the_same_order() -> None:
    page = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    existing = [each for each in ORDER if (SOURCE / each).is_dir() or (SOURCE / f"{each}.py").is_file()]
    assert " < ".join(each for each in existing if each.isalpha()) in " ".join(page.split())


def test_nothing_is_called_after_a_drawer() -> None:
    names = [path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_dir() or path.suffix == ".py"]
    assert [str(path) for path in names if path.stem.strip("_") in DRAWERS] == []


# The order inside the large layers, lowest first; "*" is every other module of a layer. Type-only imports are ignored.
INNER_ORDER = {
    "transport": [("address", "base", "burst_writer", "flow_control", "memory", "stream", "stdio", "socket"),
                  ("recording", "sandbox"), ("process",), ("remote",), ("remote.client", "remote.server")],
    "roles": [("emulator_settings", "async_with"), ("agent", "client"), ("client.permission",), ("proxy",)],
    "host": [("limits",), ("auth",), ("access", "settings", "session_names"), ("pool",), ("room",), ("*",),
             ("fleet",), ("http",)],
    "cli": [("main", "exit_codes", "json_error", "messages", "parser", "subcommands", "ui"),
            ("host_client", "registry"), ("connect",),
            ("sessions", "chat", "inspect", "check", "editors", "agents", "serve", "team"),
            ("commands",)],
}  # fmt: skip


def inner_rank(layer: str, name: str) -> int | None:
    """The place of a module in the order of its layer: that of the longest part of its name that has one."""
    parts = name.split(".")[2:]
    found = [
        (len(path), rank)
        for rank, group in enumerate(INNER_ORDER[layer])
        for path in (each.split(".") for each in group)
        if parts[: len(path)] == path
    ]
    rest = [rank for rank, group in enumerate(INNER_ORDER[layer]) if "*" in group]
    return max(found)[1] if found else rest[0] if rest else None


def inner_upward(source: str, module: str) -> list[str]:
    """The imports of a module from its own layer that do not point down."""
    layer = module.split(".")[1]
    own, ignored = inner_rank(layer, module), read_facts(source, module).typing_lines
    return [
        f"{module}:{line} imports {name}"
        for line, name in read_facts(source, module).imports
        if name.startswith(f"dragoman.{layer}.") and line not in ignored
        if own is None or (rank := inner_rank(layer, name)) is None or rank > own
    ]


def test_imports_inside_a_layer_point_down() -> None:
    wrong = [
        each
        for module, path in modules()
        if module.split(".")[1] in INNER_ORDER
        for each in inner_upward(path.read_text(encoding="utf-8"), module)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("dragoman.transport.stream", "from dragoman.transport.remote.client.dial import dial_remote", 1),
        ("dragoman.host.room.room", "from dragoman.host.http.app import HostApp", 1),
        ("dragoman.host.http.app", "from dragoman.host.room.room import Room", 0),
        ("dragoman.host.room.room", "if TYPE_CHECKING:\n    from dragoman.host.host import Host", 0),
    ],
)
def test_an_import_that_points_up_inside_a_layer_is_seen(module: str, source: str, count: int) -> None:
    assert len(inner_upward(source, module)) == count
