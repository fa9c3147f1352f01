"""The proxy `context`: puts instructions of the project before the first prompt of each new session.

AGENTS.md and CLAUDE.md of the session's folder and of the folders above it, up to the root of its repository, and the
files that an option names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.roles.proxy.built_in.option import ProxyOption, count_above_zero
from dragoman.roles.proxy.proxy import Forward, Proxy
from dragoman.schema.content import EmbeddedResource, ResourceContents, TextContent
from dragoman.schema.initialize import InitializeParams, InitializeResult
from dragoman.schema.prompt import PromptParams, PromptResult
from dragoman.schema.session import NewSessionParams, NewSessionResult

# The files that agents and their users agreed on, the common one first.
NAMES = ("AGENTS.md", "CLAUDE.md")

# A longer file is cut: it would fill the context of the model.
MAX_BYTES = 64 * 1024

# Folders above the session's one; a deeper tree is no project.
MAX_FOLDERS = 16

OPTIONS = (
    ProxyOption("--file", str, "a file to add, absolute or relative to the session's folder", repeated=True),
    ProxyOption(
        "--max-bytes", count_above_zero, f"how many bytes of each file are sent, at least 1; {MAX_BYTES} if not given"
    ),
)


def make(file: Sequence[str] = (), max_bytes: int = MAX_BYTES) -> Proxy:
    """Return the proxy."""
    proxy = Proxy("context")
    folders: dict[str, str] = {}  # of new sessions, until their first prompt
    embeds = False

    @proxy.from_client("initialize")
    async def initialize(params: InitializeParams, forward: Forward[InitializeResult]) -> InitializeResult:
        nonlocal embeds
        result = await forward(params)
        prompts = result.agent_capabilities.prompt_capabilities if result.agent_capabilities else None
        embeds = bool(prompts and prompts.embedded_context)
        return result

    @proxy.from_client("session/new")
    async def open_session(params: NewSessionParams, forward: Forward[NewSessionResult]) -> NewSessionResult:
        result = await forward(params)
        folders[result.session_id] = params.cwd
        return result

    @proxy.from_client("session/prompt")
    async def prompt(params: PromptParams, forward: Forward[PromptResult]) -> PromptResult:
        folder = folders.pop(params.session_id, None)
        if folder is not None:
            blocks = [_block(path, text, embeds) for path, text in context_files(folder, file, max_bytes)]
            params.prompt = [*blocks, *params.prompt]
        return await forward(params)

    return proxy


def context_files(folder: str, named: Sequence[str] = (), max_bytes: int = MAX_BYTES) -> list[tuple[str, str]]:
    """Return the paths and texts of the files of a session: those of the root first, those that were named last."""
    start = Path(folder)
    if not start.is_absolute():
        return []
    folders = [start]
    while not (folders[-1] / ".git").exists() and folders[-1].parent != folders[-1] and len(folders) < MAX_FOLDERS:
        folders.append(folders[-1].parent)
    if not (folders[-1] / ".git").exists():
        folders = [start]  # no repository: what stands above is not part of the project
    root = os.path.realpath(folders[-1])
    found: dict[str, str] = {}
    for each in reversed(folders):
        for name in NAMES:
            path = os.path.realpath(each / name)  # one is often a link to the other
            if os.path.commonpath([path, root]) == root:  # a project cannot send files from elsewhere
                _read_into(found, path, max_bytes)
    for name in named:
        _read_into(found, os.path.realpath(start / os.path.expanduser(name)), max_bytes)
    return list(found.items())


def _read_into(found: dict[str, str], path: str, max_bytes: int) -> None:
    if path in found or not os.path.isfile(path):
        return
    try:
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
    except OSError:
        return
    text = data[:max_bytes].decode("utf-8", "replace")
    if text.strip():
        found[path] = text + ("\n[the rest of this file was left out]" if len(data) > max_bytes else "")


def _block(path: str, text: str, embeds: bool) -> Any:
    if embeds:
        return EmbeddedResource(
            resource=ResourceContents(uri=Path(path).as_uri(), mime_type="text/markdown", text=text)
        )
    return TextContent(text=f"Instructions of this project, from {path}:\n\n{text}\n")
