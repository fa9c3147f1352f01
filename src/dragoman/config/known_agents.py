"""Known agents: how each is started, and where it comes from. Nothing is downloaded or started here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import NamedTuple


class KnownAgent(NamedTuple):
    """A known agent: its command for stdio, and how to install it."""

    name: str
    command: tuple[str, ...]
    source: str


# The first word is the program; from docs/protocol/peers.md and the public agent registry.
KNOWN_AGENTS: tuple[KnownAgent, ...] = (
    KnownAgent("auggie", ("auggie", "--acp"), "npm @augmentcode/auggie"),
    KnownAgent("cagent", ("cagent", "acp"), "github.com/docker/cagent"),
    KnownAgent("claude", ("claude-agent-acp",), "npm @agentclientprotocol/claude-agent-acp"),
    KnownAgent("claude-code", ("claude-code-acp",), "npm @zed-industries/claude-code-acp"),
    KnownAgent("code-assistant", ("code-assistant", "acp"), "github.com/stippi/code-assistant"),
    KnownAgent("codex", ("codex-acp",), "npm @zed-industries/codex-acp"),
    KnownAgent("copilot", ("copilot", "--acp"), "npm @github/copilot"),
    KnownAgent("droid", ("droid", "exec", "--output-format", "acp"), "factory.ai"),
    KnownAgent("gemini", ("gemini", "--acp"), "npm @google/gemini-cli"),
    KnownAgent("goose", ("goose", "acp"), "github.com/block/goose"),
    KnownAgent("junie", ("junie", "--acp=true"), "npm @jetbrains/junie-cli"),
    KnownAgent("kimi", ("kimi", "acp"), "npm @moonshot-ai/kimi-code"),
    KnownAgent("opencode", ("opencode", "acp"), "npm opencode-ai"),
    KnownAgent("qoder", ("qodercli", "--acp"), "npm @qoder-ai/qodercli"),
    KnownAgent("qwen", ("qwen", "--acp"), "npm @qwen-code/qwen-code"),
    KnownAgent("stakpak", ("stakpak", "acp"), "github.com/stakpak/agent"),
    KnownAgent("vibe", ("vibe-acp",), "PyPI mistral-vibe"),
)


def installed_agents(environ: Mapping[str, str] = os.environ) -> dict[str, KnownAgent]:
    """Return the known agents on PATH, by name."""
    path = environ.get("PATH", os.defpath)
    return {known.name: known for known in KNOWN_AGENTS if shutil.which(known.command[0], path=path) is not None}
