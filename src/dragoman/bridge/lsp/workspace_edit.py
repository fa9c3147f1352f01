"""Read the WorkspaceEdit of a language server into new texts of files. Pure; nothing is written here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.bridge.lsp.client_capabilities import uri_to_path
from dragoman.bridge.lsp.positions import InvalidEdit, apply_edits
from dragoman.workspace.atomic_batch import MAX_FILES


class FileEdit(msgspec.Struct, frozen=True, kw_only=True):
    """The edits of one file, and the version of the document for which they are made, if the server says so."""

    path: str
    edits: list[Any]
    version: int | None = None


def read_workspace_edit(value: Any) -> list[FileEdit]:
    """Return the edits by file. Raise InvalidEdit for one that we do not make: creating, moving or deleting files."""
    if not isinstance(value, dict):
        return []
    found: dict[str, FileEdit] = {}
    listed = value.get("documentChanges")
    if isinstance(listed, list):
        for change in listed:
            if not isinstance(change, dict) or "kind" in change:
                kind = change.get("kind") if isinstance(change, dict) else "do something unknown with"
                raise InvalidEdit(f"the server wants to {kind} a file; only changes of texts are made")
            document = change.get("textDocument")
            document = document if isinstance(document, dict) else {}
            _add(found, document.get("uri"), change.get("edits"), document.get("version"))
    else:
        changes = value.get("changes")
        for uri, edits in changes.items() if isinstance(changes, dict) else ():
            _add(found, uri, edits, None)
    if len(found) > MAX_FILES:
        raise InvalidEdit(f"the change is for {len(found)} files; the limit is {MAX_FILES}")
    return list(found.values())


def _add(found: dict[str, FileEdit], uri: Any, edits: Any, version: Any) -> None:
    path = uri_to_path(uri)
    if path is None or not isinstance(edits, list):
        raise InvalidEdit(f"the server names {uri!r}, which is no file here")
    version = version if isinstance(version, int) else None
    before = found.get(path)
    found[path] = FileEdit(path=path, edits=[*(before.edits if before else ()), *edits], version=version)


def new_texts(edits: list[FileEdit], text_of: Callable[[str], str], encoding: str) -> dict[str, str]:
    """Return the new text of each file that changes."""
    texts = {edit.path: apply_edits(text_of(edit.path), edit.edits, encoding) for edit in edits}
    return {path: text for path, text in texts.items() if text != text_of(path)}
