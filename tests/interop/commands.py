"""How each peer is started: small programs of our own, written with the official SDKs.

Without node or the TypeScript SDK the tests fail. Only DRAGOMAN_NO_NODE=1 skips them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PEERS = HERE / "peers"
SDK = HERE / "node_modules" / "@agentclientprotocol" / "sdk" / "package.json"
NODE_AT_LEAST = 18

DRAGOMAN = [sys.executable, "-m", "dragoman"]
EVERYTHING = [*DRAGOMAN, "agent", "everything"]
RUN = [*DRAGOMAN, "run"]


def peer(name: str) -> list[str]:
    """The command of `py_agent`, `py_client`, `ts_agent` or `ts_client`."""
    if name.startswith("py_"):
        return [sys.executable, str(PEERS / f"{name}.py")]
    if os.environ.get("DRAGOMAN_NO_NODE") == "1":
        pytest.skip("DRAGOMAN_NO_NODE is set")
    return [node(), str(PEERS / f"{name}.mjs")]


@cache
def node() -> str:
    """Return the path of node. If node or the SDK is missing, fail and say what to do."""
    found = shutil.which("node") or shutil.which("node", path=os.path.dirname(sys.executable))
    assert found, "there is no node on PATH; run the tests by `make test`, or set DRAGOMAN_NO_NODE=1"
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    assert int(version.lstrip("v").split(".")[0]) >= NODE_AT_LEAST, f"{found} is {version.strip()}, which is too old"
    assert SDK.exists(), "the TypeScript SDK is not installed; run the tests by `make test`, or set DRAGOMAN_NO_NODE=1"
    return found


def translate(*command: str, agent_dialect: str = "auto") -> list[str]:
    """Return the command of a translator in front of an agent."""
    return [*DRAGOMAN, "translate", "--agent-dialect", agent_dialect, "--", *command]
