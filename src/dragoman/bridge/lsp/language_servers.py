"""LanguageServers: the language servers of one session. Diagnose files, find symbols, plan a rename.

Servers start with the first file of their language, one for each root. Takes and returns paths and texts; permission
and writing are the caller's. A server that fails costs its own answers only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from dragoman import __version__
from dragoman.bridge.lsp.connection import Document, ServerConnection
from dragoman.bridge.lsp.diagnostics import Diagnostic, FileReport, by_path, read_diagnostics
from dragoman.bridge.lsp.positions import TextIndex
from dragoman.bridge.lsp.server import LanguageServer, ServerOff, ServerSettings, StartConnection, start_process
from dragoman.bridge.lsp.server_table import ServerRow, find_root, rows_for
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.transport.sandbox.spec import Sandbox
from dragoman.workspace.files import Files

# How long a write waits for diagnostics before they are said to be late. Seconds.
DIAGNOSTICS_TIMEOUT = 5.0

# The share of that time for the diagnostics before the write, with which new ones are told apart.
BEFORE_SHARE = 0.5

# Servers of one session: each is a process with up to some hundred megabytes.
MAX_SERVERS = 12

# Files over this size are not given to servers: they are generated, and every change sends the whole text. Bytes.
MAX_FILE_SIZE = 4 * 1024 * 1024

# Other open files that are looked at after a write, and files that are looked at only if the server pushed for them.
MAX_OTHERS = 5

_FAILURES = (TimeoutError, ServerOff, ProtocolError, ConnectionFailed)


class LanguageServers:
    """The language servers of one session."""

    def __init__(
        self,
        folders: Sequence[str],
        table: Sequence[ServerRow],
        *,
        sandbox: Sandbox | None = None,
        report: Callable[[str], None] = lambda text: None,
        settings: Mapping[str, Any] | None = None,
        start: StartConnection = start_process,
    ) -> None:
        """`folders` are those of the session, `settings` replaces members of ServerSettings."""
        self.folders = tuple(os.path.realpath(folder) for folder in folders)
        self.files = Files(self.folders)
        self._table = list(table)
        self._report = report
        self._start = start
        self._settings = ServerSettings(
            folders=self.folders, sandbox=sandbox, report=report, version=__version__, **(settings or {})
        )
        self._installed: dict[str, list[ServerRow]] = {}
        self._missing: set[str] = set()  # patterns of files whose servers are not installed
        self._servers: dict[tuple[str, str], LanguageServer] = {}
        self._preparing: dict[tuple[str, str], asyncio.Task[None]] = {}  # by server name and path
        self._is_full = False
        self._is_closed = False

    # --- servers ------------------------------------------------------------------------------------------------

    def servers_for(self, path: str) -> list[LanguageServer]:
        """Return the servers of a file, creating them without starting them."""
        found = []
        groups = rows_for(self._table, path)
        for group, rows in groups.items():
            if group not in self._installed:
                self._installed[group] = [row for row in rows if row.find_program() is not None]
            rows = [row for row in self._installed[group] if row.serves(path)]
            root = find_root(path, [marker for row in rows for marker in row.roots], self.folders) if rows else None
            if root is None or self._is_closed:
                continue
            server = self._servers.get((group, root))
            if server is None and len(self._servers) >= MAX_SERVERS:
                if not self._is_full:
                    self._is_full = True
                    self._report(f"{MAX_SERVERS} language servers are in use; {root} gets none")
                continue
            if server is None:
                server = self._servers[group, root] = LanguageServer(rows, root, self._settings, self._start)
            found.append(server)
        if groups and not any(self._installed[group] for group in groups):
            self._note_missing(path)
        return found

    def _note_missing(self, path: str) -> None:
        """Report once for each kind of file that no server for it is installed."""
        _, dot, suffix = os.path.basename(path).rpartition(".")
        files = f"*.{suffix}" if dot else os.path.basename(path)
        if files not in self._missing:
            self._missing.add(files)
            self._report(f"no language server for {files} is installed; see `dragoman lsp status`")

    def status(self) -> list[dict[str, Any]]:
        """Return the state of each server."""
        return [server.status() for server in self._servers.values()]

    async def close(self) -> None:
        """Stop all servers."""
        self._is_closed = True
        for task in self._preparing.values():
            task.cancel()
        await asyncio.gather(*(server.stop() for server in self._servers.values()))

    def read_text(self, path: str) -> str | None:
        """Return the text of a file of the session, or None if there is none that a server could read."""
        try:
            text = self.files.read_text(path)
        except (ProtocolError, OSError):
            return None
        return text if len(text) <= MAX_FILE_SIZE else None

    # --- diagnostics --------------------------------------------------------------------------------------------

    def prepare(self, path: str, text: str | None = None) -> None:
        """Let the servers of a file read it as it is before an edit; starts them. Returns at once."""
        if not rows_for(self._table, path):
            return
        text = self.read_text(path) if text is None else text
        if text is None or len(text) > MAX_FILE_SIZE:
            return
        for server in self.servers_for(path):
            key = server.name, path
            task = self._preparing.get(key)
            if task is None or task.done():
                self._preparing[key] = asyncio.get_running_loop().create_task(self._prepare(server, path, text))

    async def _prepare(self, server: LanguageServer, path: str, text: str) -> None:
        async def work(connection: ServerConnection, left: float) -> None:
            await connection.diagnose(connection.sync(path, text), left)

        try:
            await server.use(work, self._settings.initialize_timeout)
        except _FAILURES:
            pass  # then there is nothing to compare with
        finally:
            self._preparing.pop((server.name, path), None)

    async def diagnose(
        self, texts: Mapping[str, str], timeout: float = DIAGNOSTICS_TIMEOUT, *, created: Collection[str] = ()
    ) -> list[FileReport]:
        """Return the diagnostics of files that were written, and of other files with new errors.

        In `created` files all are new. Servers that are not ready in time are named in the reports.
        """
        texts = {path: text for path, text in texts.items() if len(text) <= MAX_FILE_SIZE}
        jobs = [(server, path) for path in texts for server in self.servers_for(path)]
        results = await asyncio.gather(*(self._diagnose_one(*job, texts, timeout) for job in jobs))
        reports = []
        for result in results:
            if result.path in created and result.before is None:
                result.before = []
        for path in texts:
            mine = [result for result in results if result.path == path]
            if mine:
                reports.append(_merge_results(path, mine))
        others: dict[str, FileReport] = {}
        for result in results:
            others |= {report.path: report for report in result.others if report.path not in texts and report.new}
        return [*reports, *others.values()]

    async def _diagnose_one(
        self, server: LanguageServer, path: str, texts: Mapping[str, str], timeout: float
    ) -> _ServerResult:
        result = _ServerResult(server.name, path)
        deadline = asyncio.get_running_loop().time() + timeout
        await self._finish_preparing(server, path, timeout * BEFORE_SHARE)

        async def work(connection: ServerConnection, left: float) -> None:
            known = connection.documents.get(path)
            result.before = known.diagnosed if known is not None else None
            others = self._others_before(connection, texts)
            document = connection.sync(path, texts[path])
            if known is None:
                connection.note_changes({path: 1})
            result.after = await connection.diagnose(document, left)
            left = max(deadline - asyncio.get_running_loop().time(), 0.05)
            result.others = await self._others_after(connection, others, left)

        try:
            await server.use(work, max(deadline - asyncio.get_running_loop().time(), 0.05))
        except (TimeoutError, ProtocolError):
            result.is_late = result.after is None
        except (ServerOff, ConnectionFailed):
            pass  # the user was told
        return result

    async def _finish_preparing(self, server: LanguageServer, path: str, limit: float) -> None:
        """Wait for the diagnostics before an edit; after the limit, do without them."""
        task = self._preparing.get((server.name, path))
        if task is None:
            return
        await asyncio.wait([task], timeout=limit)
        if not task.done():
            task.cancel()  # otherwise it would give the server the old text after the new one
            await asyncio.wait([task])

    def _others_before(self, connection: ServerConnection, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return what is known of other files before an edit: pushed items, or the diagnostics of open documents."""
        if connection.pulls:
            recent = [each for each in reversed(connection.documents.values()) if each.path not in texts]
            return {each.path: each.diagnosed for each in recent[:MAX_OTHERS] if each.diagnosed is not None}
        return {path: connection.published(path) for path in connection.published_paths() if path not in texts}

    async def _others_after(
        self, connection: ServerConnection, before: Mapping[str, Any], left: float
    ) -> list[FileReport]:
        if connection.pulls:
            documents = [connection.documents[path] for path in before if path in connection.documents]
            found = await asyncio.gather(
                *(connection.diagnose(each, left) for each in documents), return_exceptions=True
            )
            return [
                FileReport(path=each.path, before=before[each.path], after=items, is_written=False)
                for each, items in zip(documents, found, strict=True)
                if not isinstance(items, BaseException)
            ]
        paths = [path for path, items in before.items() if connection.published(path) is not items]
        return [
            FileReport(
                path=path,
                before=read_diagnostics(before[path], path, index, connection.name),
                after=read_diagnostics(connection.published(path), path, index, connection.name),
                is_written=False,
            )
            for path in paths[:MAX_OTHERS]
            if (index := self._index_of(path, connection)) is not None
        ]

    def _index_of(self, path: str, connection: ServerConnection) -> TextIndex | None:
        document = connection.documents.get(path)
        if document is not None:
            return document.index
        text = self.read_text(path)
        return None if text is None else TextIndex(text, connection.encoding)

    # --- requests about a document ------------------------------------------------------------------------------

    async def with_document(
        self, path: str, capability: str, work: Callable[[ServerConnection, Document, float], Any], timeout: float
    ) -> Any:
        """Do something with a file in the first of its servers that has a capability.

        Raise LookupError, with what to do, if there is none.
        """
        text = self.read_text(path)
        if text is None:
            raise LookupError(f"{path} is no text file in the folders of this session")
        servers = self.servers_for(path)
        if not servers:
            raise LookupError(f"no language server for {path} is installed; see dragoman lsp status")
        reasons = []
        for server in servers:
            try:
                return await server.use(partial(_with_synced, path, text, capability, work), timeout)
            except TimeoutError:
                reasons.append(f"{server.name} did not answer within {timeout:g} s; try again later")
            except (LookupError, ServerOff, ProtocolError, ConnectionFailed) as error:
                reasons.append(str(error))
        raise LookupError("; ".join(dict.fromkeys(reasons)))

    def is_inside(self, path: str | None) -> bool:
        """Return whether a path is in the folders of the session."""
        return path is not None and any(path.startswith(folder.rstrip(os.sep) + os.sep) for folder in self.folders)


async def _with_synced(
    path: str, text: str, capability: str, work: Callable[..., Any], connection: ServerConnection, left: float
) -> Any:
    if not connection.offers(capability):
        raise LookupError(f"{connection.name} has no {capability}")
    return await work(connection, connection.sync(path, text), left)


class _ServerResult:
    """What one server said about one file."""

    __slots__ = ("after", "before", "is_late", "others", "path", "server")

    def __init__(self, server: str, path: str) -> None:
        self.server = server
        self.path = path
        self.before: list[Diagnostic] | None = None
        self.after: list[Diagnostic] | None = None
        self.others: list[FileReport] = []
        self.is_late = False


def _merge_results(path: str, results: list[_ServerResult]) -> FileReport:
    """Return the report of a file from those of its servers; the state before is known only if all know it."""
    ready = [result for result in results if result.after is not None]
    before = [result.before for result in ready if result.before is not None]
    is_known = bool(ready) and len(before) == len(ready)
    return FileReport(
        path=path,
        after=by_path({result.server: result.after or [] for result in ready}),
        before=[each for items in before for each in items] if is_known else None,
        late=[result.server for result in results if result.is_late],
    )
