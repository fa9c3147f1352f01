"""One running language server: its handshake, the documents that it has open, and its diagnostics.

Made by `open_connection` for one process; after a crash there is a new one (server.py).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from dragoman.bridge.lsp.client import CONTENT_MODIFIED, SERVER_CANCELLED, LanguageClient
from dragoman.bridge.lsp.client_capabilities import (
    initialize_params,
    path_to_uri,
    request_answers,
    section_of,
    uri_to_path,
)
from dragoman.bridge.lsp.diagnostics import Diagnostic, read_diagnostics
from dragoman.bridge.lsp.positions import UTF16, TextIndex
from dragoman.bridge.lsp.server_table import language_id
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.transport.base import Transport

# Documents that a server has open; the one that was used longest ago is closed.
MAX_DOCUMENTS = 200

# Files of which pushed diagnostics are kept, so that a server cannot fill the memory.
MAX_PUBLISHED = 2000

# A server that pushes diagnostics without a version is believed when it was quiet for this long. Seconds.
QUIET = 0.15

# A pull that the server cancels because it is still busy is repeated after this time. Seconds.
RETRY_DELAY = 0.05

# The answer to `shutdown`: gopls takes seconds, but it is ended with its process group anyway. Seconds.
SHUTDOWN_TIMEOUT = 2.0


class Document:
    """A file as a server knows it."""

    __slots__ = ("diagnosed", "generation", "index", "path", "uri", "version")

    def __init__(self, path: str, text: str, encoding: str) -> None:
        self.path = path
        self.uri = path_to_uri(path)
        self.version = 1
        self.index = TextIndex(text, encoding)
        self.diagnosed: list[Diagnostic] | None = None  # the last known ones
        self.generation = -1  # of the server's documents, for which they are known

    @property
    def text(self) -> str:
        """The text that the server has."""
        return self.index.text


class _Published:
    """The diagnostics that a server pushed for one file, and when, in the order of arrival."""

    __slots__ = ("items", "number", "time", "version")

    def __init__(self, items: Any, version: Any, number: int, time: float) -> None:
        self.items = items
        self.version = version if isinstance(version, int) else None
        self.number = number
        self.time = time


class ServerConnection:
    """A server that answered `initialize`, or is about to."""

    def __init__(self, transport: Transport, name: str, root: str, settings: Mapping[str, Any]) -> None:
        self.name = name
        self.root = root
        self.transport = transport
        self.capabilities: dict[str, Any] = {}
        self.encoding = UTF16
        self.documents: OrderedDict[str, Document] = OrderedDict()  # by path, the last used one at the end
        self._settings = settings
        self._published: OrderedDict[str, _Published] = OrderedDict()
        self._publish_count = 0
        self._generation = 0  # changes of all documents: a change of one may make another wrong
        self._on_published = asyncio.Event()
        self.client = LanguageClient(
            transport,
            answers=request_answers(settings, root),
            on_notification=self._on_notification,
            on_lost=self._on_published.set,
        )

    # --- handshake ----------------------------------------------------------------------------------------------

    async def initialize(self, version: str, timeout: float) -> None:
        """Do the handshake."""
        params = initialize_params(self.root, self._settings, version)
        result = await self.client.request("initialize", params, timeout=timeout)
        found = result.get("capabilities") if isinstance(result, dict) else None
        self.capabilities = found if isinstance(found, dict) else {}
        self.encoding = self.capabilities.get("positionEncoding") or UTF16
        self.client.notify("initialized", {})
        if self._settings:
            self.client.notify("workspace/didChangeConfiguration", {"settings": section_of(self._settings, "")})

    async def shut_down(self) -> None:
        """Ask the server to exit. The caller ends its process."""
        try:
            await self.client.request("shutdown", timeout=SHUTDOWN_TIMEOUT)
        except (TimeoutError, ProtocolError, ConnectionFailed):
            return
        self.client.notify("exit")

    def offers(self, capability: str) -> bool:
        """Return whether the server has a capability, such as "renameProvider"."""
        return self.capabilities.get(capability, False) not in (False, None)

    @property
    def pulls(self) -> bool:
        """Whether its diagnostics are requested, not pushed."""
        return self.offers("diagnosticProvider")

    # --- documents ----------------------------------------------------------------------------------------------

    def sync(self, path: str, text: str) -> Document:
        """Let the server have this text of a file."""
        document = self.documents.get(path)
        if document is None:
            document = self.documents[path] = Document(path, text, self.encoding)
            item = {"uri": document.uri, "languageId": language_id(path), "version": 1, "text": text}
            self.client.notify("textDocument/didOpen", {"textDocument": item})
            if len(self.documents) > MAX_DOCUMENTS:
                self.close_document(next(iter(self.documents)))
        elif document.text != text:
            document.version += 1
            document.index = TextIndex(text, self.encoding)
            self._generation += 1
            identity = {"uri": document.uri, "version": document.version}
            self.client.notify("textDocument/didChange", {"textDocument": identity, "contentChanges": [{"text": text}]})
            self.client.notify("textDocument/didSave", {"textDocument": {"uri": document.uri}} | self._saved(text))
        self.documents.move_to_end(path)
        return document

    def _saved(self, text: str) -> dict[str, str]:
        sync = self.capabilities.get("textDocumentSync")
        save = sync.get("save") if isinstance(sync, dict) else None
        return {"text": text} if isinstance(save, dict) and save.get("includeText") else {}

    def close_document(self, path: str) -> None:
        """Let the server read this file from the disk again."""
        document = self.documents.pop(path, None)
        if document is not None:
            self.client.notify("textDocument/didClose", {"textDocument": {"uri": document.uri}})

    def note_changes(self, changes: Mapping[str, int]) -> None:
        """Tell the server of files that were created (1), changed (2) or deleted (3) on the disk."""
        listed = [{"uri": path_to_uri(path), "type": kind} for path, kind in changes.items()]
        self.client.notify("workspace/didChangeWatchedFiles", {"changes": listed})

    # --- diagnostics --------------------------------------------------------------------------------------------

    async def diagnose(self, document: Document, timeout: float) -> list[Diagnostic]:
        """Return the diagnostics of a document as it is now. Raise TimeoutError if they are not ready in time."""
        generation = self._generation
        if document.diagnosed is not None and document.generation == generation:
            return document.diagnosed
        async with asyncio.timeout(timeout):
            items = await (self._pull(document, timeout) if self.pulls else self._wait_published(document))
        found = read_diagnostics(items, document.path, document.index, self.name)
        document.diagnosed, document.generation = found, generation
        return found

    async def _pull(self, document: Document, timeout: float) -> Any:
        identity = {"textDocument": {"uri": document.uri}}
        while True:
            try:
                result = await self.client.request("textDocument/diagnostic", identity, timeout=timeout)
            except ProtocolError as error:
                if error.code not in (CONTENT_MODIFIED, SERVER_CANCELLED):
                    raise
                await asyncio.sleep(RETRY_DELAY)
                continue
            report = result if isinstance(result, dict) else {}
            self._keep_related(report.get("relatedDocuments"))
            pushed = self._published.get(document.path)
            items = report.get("items")
            extra = pushed.items if pushed is not None and pushed.version in (None, document.version) else []
            return [*items, *(each for each in extra if each not in items)] if isinstance(items, list) else extra

    def _keep_related(self, related: Any) -> None:
        """Keep the diagnostics of other files that came with an answer, as if they had been pushed."""
        for uri, report in related.items() if isinstance(related, dict) else ():
            if isinstance(report, dict) and isinstance(report.get("items"), list):
                self._publish(uri, report["items"], None)

    async def _wait_published(self, document: Document) -> Any:
        """Wait for pushed diagnostics of this version; without versions, for those after our change and then quiet."""
        loop = asyncio.get_running_loop()
        seen = self._publish_count
        while True:
            if self.client.failure is not None:
                raise self.client.failure.with_traceback(None)
            found = self._published.get(document.path)
            delay: float | None = None
            if found is not None and found.version is not None and found.version >= document.version:
                return found.items
            if found is not None and found.version is None and found.number > seen:
                delay = found.time + QUIET - loop.time()
                if delay <= 0:
                    return found.items
            self._on_published.clear()
            try:
                async with asyncio.timeout(delay):
                    await self._on_published.wait()
            except TimeoutError:
                if delay is None:
                    raise

    def published(self, path: str) -> list[Any] | None:
        """Return the last diagnostics of a file that were pushed, as the server sent them."""
        found = self._published.get(path)
        return None if found is None else found.items

    def published_paths(self) -> list[str]:
        """Return the files for which diagnostics were pushed."""
        return list(self._published)

    def _on_notification(self, method: str, params: Any) -> None:
        if method == "textDocument/publishDiagnostics" and isinstance(params, dict):
            self._publish(params.get("uri"), params.get("diagnostics"), params.get("version"))

    def _publish(self, uri: Any, items: Any, version: Any) -> None:
        path = uri_to_path(uri)
        if path is None:
            return
        self._publish_count += 1
        kept = items[:MAX_PUBLISHED] if isinstance(items, list) else []
        now = asyncio.get_running_loop().time()
        self._published[path] = _Published(kept, version, self._publish_count, now)
        self._published.move_to_end(path)
        if len(self._published) > MAX_PUBLISHED:
            self._published.popitem(last=False)
        self._on_published.set()
