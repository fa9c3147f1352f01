"""What we announce to language servers, and how we answer their requests."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from dragoman.bridge.lsp.positions import ENCODINGS

# Servers with pull diagnostics push none to a client that announces `diagnostic`, so both ways are read. They are not
# registered later: ty and pyright would do so after the first document is open, when nobody knows which way they go.
CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": list(ENCODINGS)},
    "workspace": {
        "applyEdit": False,
        "configuration": True,
        "workspaceFolders": True,
        "didChangeConfiguration": {"dynamicRegistration": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "workspaceEdit": {"documentChanges": True, "resourceOperations": ["create", "rename", "delete"]},
        "symbol": {},
        "diagnostics": {"refreshSupport": True},
    },
    "textDocument": {
        "synchronization": {"didSave": True, "dynamicRegistration": False},
        "publishDiagnostics": {"versionSupport": True, "relatedInformation": False},
        "diagnostic": {"dynamicRegistration": False, "relatedDocumentSupport": True},
        "definition": {"linkSupport": True},
        "references": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "rename": {"prepareSupport": True},
    },
    "window": {"workDoneProgress": True, "showDocument": {"support": False}},
}

_NO_EDITS = "edits are made only on request of the agent, with permission"


def path_to_uri(path: str) -> str:
    """Return the file URI of an absolute path."""
    return "file://" + quote(path)


def uri_to_path(uri: Any) -> str | None:
    """Return the path of a file URI on this machine, or None."""
    if not isinstance(uri, str):
        return None
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        return None
    return os.path.normpath(unquote(parts.path))


def section_of(settings: Mapping[str, Any], name: Any) -> Any:
    """Return a section of the settings by its dotted name; None if there is none."""
    if not isinstance(name, str) or not name:
        return settings
    value: Any = settings
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return settings.get(name) if value is None else value


def expand_folder(settings: Any, root: str) -> Any:
    """Return settings in which ${workspaceFolder} is the root."""
    if isinstance(settings, str):
        return settings.replace("${workspaceFolder}", root)
    if isinstance(settings, Mapping):
        return {key: expand_folder(value, root) for key, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [expand_folder(value, root) for value in settings]
    return settings


def request_answers(settings: Mapping[str, Any], root: str) -> dict[str, Callable[[Any], Any]]:
    """Return the answer to each request that servers send; each server that was tried waits for one of them."""
    folder = {"uri": path_to_uri(root), "name": os.path.basename(root) or root}

    def configuration(params: Any) -> list[Any]:
        items = params.get("items") if isinstance(params, dict) else None
        wanted: Sequence[Any] = items if isinstance(items, list) else []
        return [section_of(settings, item.get("section") if isinstance(item, dict) else None) for item in wanted]

    def ignore(_: Any) -> None:
        return None

    return {
        "workspace/configuration": configuration,
        "workspace/workspaceFolders": lambda _: [folder],
        "workspace/applyEdit": lambda _: {"applied": False, "failureReason": _NO_EDITS},
        "client/registerCapability": ignore,
        "client/unregisterCapability": ignore,
        "window/workDoneProgress/create": ignore,
        "window/showMessageRequest": ignore,
        "window/showDocument": lambda _: {"success": False},
        "workspace/diagnostic/refresh": ignore,
        "workspace/semanticTokens/refresh": ignore,
        "workspace/inlayHint/refresh": ignore,
        "workspace/codeLens/refresh": ignore,
        "workspace/inlineValue/refresh": ignore,
        "workspace/foldingRange/refresh": ignore,
    }


def initialize_params(root: str, settings: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the params of `initialize`."""
    folder = {"uri": path_to_uri(root), "name": os.path.basename(root) or root}
    return {
        "processId": os.getpid(),
        "clientInfo": {"name": "dragoman", "version": version},
        "rootUri": folder["uri"],
        "rootPath": root,
        "workspaceFolders": [folder],
        "capabilities": CAPABILITIES,
        "initializationOptions": {"settings": settings} if settings else {},
    }
