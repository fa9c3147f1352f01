"""The table of counterparts: what is installed for each, how it is started, and how it finds the fake model.

Takes the folder an agent was installed into and the address of its model; gives a command, variables and files of its
home. The facts are those of docs/protocol/peers.md#offline-counterparts. Knows nothing of cells.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Place:
    """Where a counterpart is installed, and the URL of its model."""

    folder: Path
    model: str

    def npm(self, name: str) -> str:
        """A command of an npm package."""
        return str(self.folder / "node_modules" / ".bin" / name)

    @property
    def python(self) -> str:
        """The interpreter of a counterpart from PyPI."""
        return str(self.folder / "bin" / "python")


def _nothing(place: Place) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Counterpart:
    """One agent or client. `packages` have pinned versions; the version of the first is shown."""

    name: str
    source: str  # npm, PyPI, sdist (PyPI with the source of the first package, which has its examples) or crates.io
    packages: tuple[str, ...]
    command: Callable[[Place], list[str]]
    env: Callable[[Place], dict[str, str]] = _nothing
    files: Callable[[Place], dict[str, str]] = _nothing
    peer: str | None = None  # a file of ours that is copied into its folder, or the folder of a crate that is built
    python: tuple[int, int] = (3, 11)  # the oldest interpreter that a counterpart from PyPI runs on
    rest: Callable[[], float] = lambda: 0.0  # seconds to wait before another process opens the same session

    @property
    def version(self) -> str:
        """The version of the first package."""
        return self.packages[0].replace("==", "@").rpartition("@")[2]


def _opencode_files(place: Place) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": {"baseURL": f"{place.model}/v1", "apiKey": "x"},
        "models": {"fake-model": {"name": "Fake model"}},
    }
    config = {
        "provider": {"fake": provider},
        "model": "fake/fake-model",
        "small_model": "fake/fake-model",
        "permission": {"edit": "ask", "bash": "ask"},
        "autoupdate": False,
        "share": "disabled",
    }
    return {".config/opencode/opencode.json": json.dumps(config, indent=2)}


def _kimi_files(place: Place) -> dict[str, str]:
    return {
        ".kimi-code/config.toml": f"""\
default_model = "fake"
default_permission_mode = "manual"
telemetry = false

[providers.fake]
type = "openai"
base_url = "{place.model}/v1"
api_key = "x"

[models.fake]
provider = "fake"
model = "fake-model"
max_context_size = 100000
"""
    }


def _codex_files(place: Place) -> dict[str, str]:
    return {
        ".codex/config.toml": f"""\
model = "gpt-5-codex"
model_provider = "fake"

[model_providers.fake]
name = "Fake"
base_url = "{place.model}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
"""
    }


def _crow_files(place: Place) -> dict[str, str]:
    return {
        ".agents/crow/config.yaml": f"""\
providers:
  fake:
    base_url: {place.model}/v1
    api_key: x
models:
  fake-model:
    provider: fake
    model: fake-model
"""
    }


def _another_minute() -> float:
    """gemini 0.61 names a session's file by its id and the minute; a load in that minute begins the file anew.

    It answers that load with "No previous sessions found", and `run` goes on with the transcript and says so. The cell
    is about loading, so it waits.
    """
    return 61 - time.time() % 60


AGENTS: tuple[Counterpart, ...] = (
    Counterpart(
        "opencode",
        "npm",
        ("opencode-ai@1.18.33",),
        lambda place: [place.npm("opencode"), "acp"],
        lambda _: {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
        _opencode_files,
    ),
    Counterpart(
        "qwen-code",
        "npm",
        ("@qwen-code/qwen-code@0.24.4",),
        # Without the flag a model decides what is safe, and the agent sends no permission request.
        lambda place: [place.npm("qwen"), "--acp", "--approval-mode", "default"],
        lambda place: {
            "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": f"{place.model}/v1",
            "OPENAI_MODEL": "fake-model",
        },
    ),
    Counterpart(
        "gemini-cli",
        "npm",
        ("@google/gemini-cli@0.61.0",),
        lambda place: [place.npm("gemini"), "--acp"],
        lambda place: {
            "GEMINI_API_KEY": "x",
            "GOOGLE_GEMINI_BASE_URL": place.model,
            "GEMINI_MODEL": "gemini-2.5-flash",
        },
        rest=_another_minute,
    ),
    Counterpart(
        "claude-agent-acp",
        "npm",
        ("@agentclientprotocol/claude-agent-acp@0.99.1",),
        lambda place: [place.npm("claude-agent-acp")],
        lambda place: {
            "ANTHROPIC_BASE_URL": place.model,
            "ANTHROPIC_API_KEY": "x",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            **({"IS_SANDBOX": "1"} if os.getuid() == 0 else {}),
        },
    ),
    Counterpart(
        "copilot",
        "npm",
        ("@github/copilot@1.0.102",),
        lambda place: [place.npm("copilot"), "--acp", "--no-auto-update"],
        lambda place: {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": f"{place.model}/v1",
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "gpt-4.1",
        },
    ),
    Counterpart(
        "kimi-code",
        "npm",
        ("@moonshot-ai/kimi-code@2.1.0",),
        lambda place: [place.npm("kimi"), "acp"],
        files=_kimi_files,
    ),
    Counterpart(
        "pydantic-acp",
        "PyPI",
        ("pydantic-acp==1.10.0", "pydantic-ai-slim[openai]==2.52.0"),
        lambda place: [place.python, str(place.folder / "pydantic_agent.py")],
        lambda place: {"OPENAI_BASE_URL": f"{place.model}/v1", "OPENAI_API_KEY": "x"},
        peer="pydantic_agent.py",
    ),
    Counterpart(
        "python-sdk",
        "PyPI",
        ("agent-client-protocol==0.12.1",),
        lambda place: [place.python, str(place.folder / "sdk_agent.py")],
        peer="sdk_agent.py",
    ),
    Counterpart(
        "typescript-sdk",
        "npm",
        ("@agentclientprotocol/sdk@2.4.0",),
        lambda place: ["node", str(place.folder / "sdk_agent.mjs")],
        lambda _: {"SDK_VERSION": "2.4.0"},
        peer="sdk_agent.mjs",
    ),
    # The next version of the protocol; an agent of the SDKs' v2 speaks no other.
    Counterpart(
        "python-sdk-v2",
        "PyPI",
        ("agent-client-protocol==1.0.0rc3",),
        lambda place: [place.python, str(place.folder / "sdk_agent_v2.py")],
        peer="sdk_agent_v2.py",
    ),
    Counterpart(
        "typescript-sdk-v2",
        "npm",
        ("@agentclientprotocol/sdk@2.4.0",),
        lambda place: ["node", str(place.folder / "sdk_agent_v2.mjs")],
        lambda _: {"SDK_VERSION": "2.4.0"},
        peer="sdk_agent_v2.mjs",
    ),
)

# Agents of the next version that only `interop.v2` uses: codex has only a shell, crow has no tools of its own and never
# asks, and the Rust agent has to be built.
CODEX = Counterpart(
    "codex-acp",
    "npm",
    ("@agentclientprotocol/codex-acp@2.6.0",),
    lambda place: [place.npm("codex-acp")],
    lambda _: {"OPENAI_API_KEY": "x", "NO_BROWSER": "1", "INITIAL_AGENT_MODE": "read-only"},
    _codex_files,
)
CROW = Counterpart(
    "crow-cli",
    "PyPI",
    ("crow-cli==0.1.48",),
    lambda place: [str(place.folder / "bin" / "crow-cli"), "acp2"],
    files=_crow_files,
    python=(3, 13),
)
RUST_V2 = Counterpart(
    "rust-sdk-v2",
    "crates.io",
    ("agent-client-protocol@5.0.0",),  # as peers/rust_v2/Cargo.toml says
    lambda place: [str(place.folder / "bin" / "sdk_agent_v2")],
    peer="rust_v2",
)

ACPX = Counterpart("acpx", "npm", ("acpx@0.19.1",), lambda place: [place.npm("acpx")])

ALL = (*AGENTS, ACPX)

# The example agents of the official SDKs. The Rust examples answer no prompt, so peers/rust has a minimal agent and a
# client. Only `interop.check` uses them.
EXAMPLES: tuple[Counterpart, ...] = (
    Counterpart(
        "python-sdk-echo",
        "sdist",
        ("agent-client-protocol==0.12.1",),
        lambda place: [place.python, str(place.folder / "source" / "examples" / "echo_agent.py")],
    ),
    Counterpart(
        "typescript-sdk-example",
        "npm",
        ("@agentclientprotocol/sdk@1.9.0",),  # the last version that has its examples in the package
        lambda place: ["node", str(place.folder / "node_modules/@agentclientprotocol/sdk/dist/examples/agent.js")],
    ),
    Counterpart(
        "rust-sdk",
        "crates.io",
        ("agent-client-protocol@5.0.0",),  # as peers/rust/Cargo.toml says
        lambda place: [str(place.folder / "bin" / "sdk_agent")],
        peer="rust",
    ),
)
