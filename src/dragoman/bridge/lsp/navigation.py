"""Navigation: definition, references, symbols, hover and rename by the name of a symbol, in one session.

A rename is only planned here: `RenamePlan` has the old and the new text of every file, and the caller writes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from dragoman.bridge.lsp.client_capabilities import uri_to_path
from dragoman.bridge.lsp.connection import Document, ServerConnection
from dragoman.bridge.lsp.diagnostics import FileReport
from dragoman.bridge.lsp.language_servers import LanguageServers
from dragoman.bridge.lsp.positions import InvalidEdit, TextIndex
from dragoman.bridge.lsp.symbols import Symbol, SymbolNotFound, find_symbol, kind_name, read_symbols
from dragoman.bridge.lsp.workspace_edit import FileEdit, new_texts, read_workspace_edit
from dragoman.errors import ProtocolError

# References and symbols that are returned; gopls has a limit of 100 itself.
MAX_PLACES = 200

# Characters of documentation.
MAX_HOVER = 4000

# How long a request may take, with the start of the server. Seconds; pyright reads a whole project first.
REQUEST_TIMEOUT = 30.0

# The names of all languages: no spaces, no line ends, no punctuation that would change the code around it.
_NAME = re.compile(r"[$@#]{0,2}[^\W\d][\w$-]{0,199}[!?']{0,2}")

# How often a rename is asked for again, with more files open each time.
MAX_ROUNDS = 4


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a file. Line and column begin at 1."""

    path: str
    line: int
    column: int


class TextChange(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a file before and after a change."""

    old: str
    new: str


class RenamePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A rename: the change of each file."""

    symbol: str
    new_name: str
    changes: dict[str, TextChange]


class Navigation:
    """Requests about symbols. All raise LookupError with what to do if there is no answer."""

    def __init__(self, servers: LanguageServers, timeout: float = REQUEST_TIMEOUT) -> None:
        self._servers = servers
        self._timeout = timeout

    async def definition(self, path: str, symbol: str, line: int | None = None) -> list[Place]:
        """Return where a symbol is defined."""
        found = await self._ask_at(path, symbol, line, "definitionProvider", "textDocument/definition")
        return found if isinstance(found, list) else []

    async def references(self, path: str, symbol: str, line: int | None = None) -> list[Place]:
        """Return where a symbol is used, with its definition, in the folders of the session."""
        more = {"context": {"includeDeclaration": True}}
        found = await self._ask_at(path, symbol, line, "referencesProvider", "textDocument/references", more)
        inside = [place for place in found if self._servers.is_inside(place.path)]
        return inside[:MAX_PLACES]

    async def hover(self, path: str, symbol: str, line: int | None = None) -> str:
        """Return the type and documentation of a symbol."""

        async def work(connection: ServerConnection, document: Document, left: float) -> str:
            offset = await _symbol_offset(connection, document, symbol, line, left)
            result = await connection.client.request("textDocument/hover", _at(document, offset), timeout=left)
            text = _hover_text(result)
            if not text:  # ruff explains only its own comments; ask the next server
                raise LookupError(f"{connection.name} says nothing about {symbol}")
            return text

        return str(await self._servers.with_document(path, "hoverProvider", work, self._timeout))

    async def symbols(self, path: str, query: str = "") -> list[Symbol]:
        """Return the symbols of a file; with a query, those of the project whose names contain it."""
        if query:
            return await self._project_symbols(path, query)

        async def work(connection: ServerConnection, document: Document, left: float) -> list[Symbol]:
            return (await _document_symbols(connection, document, left))[:MAX_PLACES]

        found: list[Symbol] = await self._servers.with_document(path, "documentSymbolProvider", work, self._timeout)
        return found

    async def diagnostics(self, path: str) -> list[FileReport]:
        """Return the diagnostics of a file as it is."""
        text = self._servers.read_text(path)
        if text is None:
            raise LookupError(f"{path} is no text file in the folders of this session")
        if not self._servers.servers_for(path):
            raise LookupError(f"no language server for {path} is installed; see dragoman lsp status")
        reports = await self._servers.diagnose({path: text}, self._timeout)
        return [report for report in reports if report.is_written]

    async def plan_rename(self, path: str, symbol: str, new_name: str, line: int | None = None) -> RenamePlan:
        """Return the changes that rename a symbol everywhere. Nothing is written.

        The server gets every file that it changes from us, so that each edit is for a text that we know.
        """

        async def work(connection: ServerConnection, document: Document, left: float) -> dict[str, TextChange]:
            for _ in range(MAX_ROUNDS):
                offset = await _symbol_offset(connection, document, symbol, line, left)
                params = {**_at(document, offset), "newName": new_name}
                edits = read_workspace_edit(
                    await connection.client.request("textDocument/rename", params, timeout=left)
                )
                if not self._open_changed(connection, edits):
                    texts = new_texts(edits, lambda name: connection.documents[name].text, connection.encoding)
                    return {
                        name: TextChange(old=connection.documents[name].text, new=text) for name, text in texts.items()
                    }
            raise LookupError("the files changed while the rename was made; try again")

        if _NAME.fullmatch(new_name) is None:
            raise LookupError(f"{new_name!r} is no name for a symbol; some servers would write it anyway")
        try:
            changes = await self._servers.with_document(path, "renameProvider", work, self._timeout)
        except InvalidEdit as error:
            raise LookupError(f"the rename cannot be made: {error}") from None
        if not changes:
            raise LookupError(f"{symbol} cannot be renamed to {new_name}: the server changes nothing")
        return RenamePlan(symbol=symbol, new_name=new_name, changes=changes)

    def _open_changed(self, connection: ServerConnection, edits: Sequence[FileEdit]) -> bool:
        """Give the server the files of its edits as they are now; return whether it had others."""
        has_changed = False
        for edit in edits:
            if not self._servers.is_inside(edit.path):
                raise InvalidEdit(f"{edit.path} is outside of the folders of this session")
            text = self._servers.read_text(edit.path)
            if text is None:
                raise InvalidEdit(f"{edit.path} cannot be read")
            known = connection.documents.get(edit.path)
            version = known.version if known is not None else 0
            has_changed |= known is None or known.text != text or edit.version not in (None, version)
            connection.sync(edit.path, text)
        return has_changed

    async def _ask_at(
        self,
        path: str,
        symbol: str,
        line: int | None,
        capability: str,
        method: str,
        more: dict[str, Any] | None = None,
    ) -> list[Place]:
        async def work(connection: ServerConnection, document: Document, left: float) -> list[Place]:
            offset = await _symbol_offset(connection, document, symbol, line, left)
            params = {**_at(document, offset), **(more or {})}
            return self._places(connection, await connection.client.request(method, params, timeout=left))

        found: list[Place] = await self._servers.with_document(path, capability, work, self._timeout)
        return found

    def _places(self, connection: ServerConnection, result: Any) -> list[Place]:
        """Return the places of an answer in any of its three forms."""
        items = result if isinstance(result, list) else [result]
        found: dict[Place, None] = {}
        for item in items[: 10 * MAX_PLACES]:
            if not isinstance(item, dict):
                continue
            path = uri_to_path(item.get("uri") or item.get("targetUri"))
            range_ = item.get("range") or item.get("targetSelectionRange")
            if path is not None and isinstance(range_, dict):
                line, column = self._place(connection, path, range_.get("start"))
                found[Place(path=path, line=line, column=column)] = None
        return list(found)

    def _place(self, connection: ServerConnection, path: str, position: Any) -> tuple[int, int]:
        document = connection.documents.get(path)
        text = None if document is not None else self._servers.read_text(path)
        if document is not None:
            return document.index.place(position)
        if text is not None:
            return TextIndex(text, connection.encoding).place(position)
        at = position if isinstance(position, dict) else {}
        line, character = at.get("line"), at.get("character")  # a library: its text is not ours to read
        return (line if isinstance(line, int) else 0) + 1, (character if isinstance(character, int) else 0) + 1

    async def _project_symbols(self, path: str, query: str) -> list[Symbol]:
        async def work(connection: ServerConnection, document: Document, left: float) -> list[Symbol]:
            result = await connection.client.request("workspace/symbol", {"query": query}, timeout=left)
            found: list[Symbol] = []
            for item in result if isinstance(result, list) else ():
                location = item.get("location") if isinstance(item, dict) else None
                where = uri_to_path(location.get("uri")) if isinstance(location, dict) else None
                if where is None or not self._servers.is_inside(where) or len(found) >= MAX_PLACES:
                    continue
                start = (location.get("range") or {}).get("start") if isinstance(location, dict) else None
                line, column = self._place(connection, where, start)
                found.append(
                    Symbol(
                        name=str(item.get("name")),
                        container=str(item.get("containerName") or ""),
                        kind=kind_name(item.get("kind")),
                        path=where,
                        line=line,
                        column=column,
                    )
                )
            return found

        found: list[Symbol] = await self._servers.with_document(path, "workspaceSymbolProvider", work, self._timeout)
        return found


def _at(document: Document, offset: int) -> dict[str, Any]:
    return {"textDocument": {"uri": document.uri}, "position": document.index.position(offset)}


async def _document_symbols(connection: ServerConnection, document: Document, left: float) -> list[Symbol]:
    if not connection.offers("documentSymbolProvider"):
        return []
    params = {"textDocument": {"uri": document.uri}}
    result = await connection.client.request("textDocument/documentSymbol", params, timeout=left)
    return read_symbols(result, document.path, document.index)


async def _symbol_offset(
    connection: ServerConnection, document: Document, symbol: str, line: int | None, left: float
) -> int:
    """Return the offset of a symbol by its name; without symbols of the server, by the text alone."""
    try:
        symbols = await _document_symbols(connection, document, left)
    except ProtocolError:
        symbols = []
    try:
        return find_symbol(symbol, line, symbols, os.path.basename(document.path), document.index)
    except SymbolNotFound as error:
        raise LookupError(str(error)) from None


def _hover_text(result: Any) -> str:
    """Return the text of a hover in any of its forms."""
    contents = result.get("contents") if isinstance(result, dict) else None
    parts = contents if isinstance(contents, list) else [contents]
    texts = [part.get("value") if isinstance(part, dict) else part for part in parts]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)[:MAX_HOVER]
