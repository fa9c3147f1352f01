"""Agents that are known by name: how each is started, and where it comes from.

One table. What is on PATH counts as found; nothing is downloaded or started here. Installing is the registry's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import NamedTuple


class Known(NamedTuple):
    """An agent people use: the words that start it on standard input and output, and how to get it."""

    name: str
    command: tuple[str, ...]
    source: str


# The first words are programs; those of peers.md and of the public catalogue of agents.
KNOWN: tuple[Known, ...] = (
    Known("auggie", ("auggie", "--acp"), "npm @augmentcode/auggie"),
    Known("cagent", ("cagent", "acp"), "github.com/docker/cagent"),
    Known("claude", ("claude-agent-acp",), "npm @agentclientprotocol/claude-agent-acp"),
    Known("claude-code", ("claude-code-acp",), "npm @zed-industries/claude-code-acp"),
    Known("code-assistant", ("code-assistant", "acp"), "github.com/stippi/code-assistant"),
    Known("codex", ("codex-acp",), "npm @zed-industries/codex-acp"),
    Known("copilot", ("copilot", "--acp"), "npm @github/copilot"),
    Known("droid", ("droid", "exec", "--output-format", "acp"), "factory.ai"),
    Known("gemini", ("gemini", "--acp"), "npm @google/gemini-cli"),
    Known("goose", ("goose", "acp"), "github.com/block/goose"),
    Known("junie", ("junie", "--acp=true"), "npm @jetbrains/junie-cli"),
    Known("kimi", ("kimi", "acp"), "npm @moonshot-ai/kimi-code"),
    Known("opencode", ("opencode", "acp"), "npm opencode-ai"),
    Known("qoder", ("qodercli", "--acp"), "npm @qoder-ai/qodercli"),
    Known("qwen", ("qwen", "--acp"), "npm @qwen-code/qwen-code"),
    Known("stakpak", ("stakpak", "acp"), "github.com/stakpak/agent"),
    Known("vibe", ("vibe-acp",), "PyPI mistral-vibe"),
)


def found(environ: Mapping[str, str] = os.environ) -> dict[str, Known]:
    """Those of them that are on PATH, by name."""
    path = environ.get("PATH", os.defpath)
    return {known.name: known for known in KNOWN if shutil.which(known.command[0], path=path) is not None}
