"""EditObserver: watch the file calls and tool calls of an agent, and show the diagnostics of what it wrote.

Wraps handlers of a client or a proxy. A write is answered after its diagnostics, and they are sent before its answer. A
tool call that says to have changed files is passed on with the diagnostics in it: its own last update waits for them,
and with it the end of the turn. Everything else goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import Raw

from dragoman.bridge.lsp.diagnostics import FileReport, format_report, report_json
from dragoman.bridge.lsp.held_updates import HeldUpdates
from dragoman.bridge.lsp.language_servers import DIAGNOSTICS_TIMEOUT, LanguageServers
from dragoman.bridge.lsp.server_table import ServerRow
from dragoman.bridge.lsp.tracked_calls import TrackedCall, TrackedCalls
from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.errors import ProtocolError
from dragoman.mcp.tool_table import ToolTable
from dragoman.schema.toolcall import ToolCallStatus, ToolKind
from dragoman.schema.update import SessionState
from dragoman.transport.sandbox.spec import Sandbox

# How long the last update of a tool call that wrote files itself is held; the end of the turn waits too. Seconds.
UPDATE_TIMEOUT = 2.0

# How long diagnostics that are late are awaited. Seconds; the first start of pyright takes ten.
LATE_TIMEOUT = 60.0

# Every update that matters here has one of these words.
_WATCHED = (b"tool_call", b"state_update")

NOTHING_FOUND = "Diagnostics: none"

SendUpdate = Callable[[str, dict[str, Any]], Awaitable[None] | None]
Write = Callable[[Incoming, DoneCallback], Awaitable[None] | None]


class ObservedSession:
    """A session: its language servers and its tool calls."""

    def __init__(self, servers: LanguageServers) -> None:
        self.servers = servers
        self.calls = TrackedCalls()
        self.late: dict[str, asyncio.Task[None]] = {}  # by path
        self.held = HeldUpdates()
        self.holding: set[asyncio.Task[None]] = set()
        self.own_calls = 0

    async def close(self) -> None:
        """Deliver what is held, without diagnostics, and stop the servers."""
        for task in (*self.late.values(), *self.holding):
            task.cancel()
        await asyncio.gather(*self.holding, return_exceptions=True)
        await self.held.release_all()
        await self.servers.close()


class EditObserver:
    """Diagnostics for the sessions of one agent. `roots` returns a session's folders, or raises ProtocolError."""

    def __init__(
        self,
        table: Sequence[ServerRow],
        *,
        roots: Callable[[str], Sequence[str]],
        send_update: SendUpdate,
        session_ids: Callable[[], Sequence[str]] = lambda: (),
        sandbox: Callable[[], Sandbox | None] = lambda: None,
        report: Callable[[str], None] = lambda text: None,
        server_settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._table = table
        self._roots = roots
        self._send_update = send_update
        self._session_ids = session_ids
        self._sandbox = sandbox
        self._report = report
        self._server_settings = server_settings
        self.tables: list[ToolTable] = []
        self._sessions: dict[str, ObservedSession] = {}
        self._wrappers: dict[str, Callable[[Handler], Handler]] = {
            "fs/read_text_file": self._after_read,
            "fs/write_text_file": lambda handler: self._with_diagnostics(handler, _written_text),
            "fs/write_files": lambda handler: self._with_diagnostics(handler, _written_texts),
            "session/update": self._on_update,
        }

    def wrap(self, method: str, handler: Handler) -> Handler:
        """Return the handler of a method of the agent, observed if it concerns files or tool calls."""
        wrapper = self._wrappers.get(method)
        return handler if wrapper is None else wrapper(handler)

    def wrap_all(self, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
        """Return all handlers, observed."""
        return {method: self.wrap(method, handler) for method, handler in handlers.items()}

    @property
    def methods(self) -> list[str]:
        """The methods that are observed."""
        return list(self._wrappers)

    async def end_session(self, session_id: str) -> None:
        """Stop the language servers of a session."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session.close()

    async def close(self) -> None:
        """Stop all language servers."""
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.close() for session in sessions))

    def tool_tables(self) -> Sequence[ToolTable]:
        """The tools that the sessions of the agent get."""
        return self.tables

    def held_updates(self, session_id: str) -> asyncio.Future[None] | None:
        """Return what is done when no update of a session is held; None if none is."""
        session = self._sessions.get(session_id)
        return None if session is None else session.held.released

    def servers_of(self, session_id: str) -> LanguageServers | None:
        """Return the language servers of a session, or None if it is not open."""
        session = self._session(session_id)
        return None if session is None else session.servers

    def _session(self, session_id: Any) -> ObservedSession | None:
        if not isinstance(session_id, str) or not session_id:
            open_ids = self._session_ids()
            if len(open_ids) != 1:
                return None
            session_id = open_ids[0]
        known = self._sessions.get(session_id)
        if known is None:
            try:
                folders = self._roots(session_id)
            except ProtocolError:
                return None
            if not folders:
                return None
            servers = LanguageServers(
                folders, self._table, sandbox=self._sandbox(), report=self._report, settings=self._server_settings
            )
            known = self._sessions[session_id] = ObservedSession(servers)
        return known

    # --- file calls -----------------------------------------------------------------------------------------------

    def _after_read(self, handler: Handler) -> Handler:
        """Let the servers read what the agent reads: it often writes it next."""

        def handle(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            values = incoming.values

            def prepare(result: Any, error: ProtocolError | None) -> None:
                session = self._session(values.get("sessionId")) if isinstance(values, dict) else None
                path = _resolve(session, values.get("path")) if session is not None else None
                if error is None and session is not None and path is not None:
                    session.servers.prepare(path)
                done(result, error)

            return handler(incoming, prepare)

        return handle

    def _with_diagnostics(self, handler: Handler, written: Callable[[Any], dict[str, str]]) -> Handler:
        def handle(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            values = incoming.values
            session = self._session(values.get("sessionId")) if isinstance(values, dict) else None
            if session is None:
                return handler(incoming, done)
            texts = {path: text for name, text in written(values).items() if (path := _resolve(session, name))}
            texts = {path: text for path, text in texts.items() if session.servers.servers_for(path)}
            return self._write(session, str(values.get("sessionId")), texts, handler, incoming, done)

        return handle

    async def _write(
        self,
        session: ObservedSession,
        session_id: str,
        texts: dict[str, str],
        handler: Handler,
        incoming: Incoming,
        done: DoneCallback,
    ) -> None:
        created = [path for path in texts if session.servers.read_text(path) is None]
        for path in texts:
            _cancel_late(session, path)
            session.servers.prepare(path)
        answer: asyncio.Future[tuple[Any, ProtocolError | None]] = asyncio.get_running_loop().create_future()
        work = handler(incoming, lambda *result: None if answer.done() else answer.set_result(result))
        if work is not None:
            await work
        result, error = await answer
        if error is None and texts:
            call = session.calls.find_writer(texts)
            if call is not None:
                call.diagnosed.update(texts)
            reports = await session.servers.diagnose(texts, DIAGNOSTICS_TIMEOUT, created=created)
            await self._show(session, session_id, reports, call)
            self._follow_late(session, session_id, reports, texts, created, call)
        done(result, error)

    # --- tool calls -----------------------------------------------------------------------------------------------

    def _on_update(self, handler: Handler) -> Handler:
        def handle(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            source = incoming.source
            if type(source) is Raw and not any(word in bytes(source) for word in _WATCHED):  # most of a stream
                return handler(incoming, done)
            values = incoming.values
            update = values.get("update") if isinstance(values, dict) else None
            session = self._session(values.get("sessionId")) if isinstance(update, dict) else None
            if session is None or not isinstance(update, dict):
                return handler(incoming, done)
            call = session.calls.apply(update)
            if call is not None and call.is_open:
                self._prepare_call(session, call)
            is_done = call is not None and call.status == ToolCallStatus.COMPLETED
            texts = self._own_writes(session, call) if call is not None and is_done else {}
            is_held = session.held.holds(update.get("toolCallId"))
            if is_held or texts:  # an emulator may use `incoming` again for its next update
                incoming = Incoming(incoming.id, incoming.method, incoming.row, values)
            deliver = _delivery(call, bool(texts) or "content" in update, incoming, handler, done)
            if is_held:
                session.held.add(update["toolCallId"], deliver)
            elif call is not None and texts:
                self._hold_update(session, str(values.get("sessionId")), call, texts, deliver)
            elif session.held.released is not None and update.get("state") == SessionState.IDLE:
                return _deliver_after(session.held.released, deliver)  # the end of a turn in v2
            else:
                return deliver()
            return None

        return handle

    def _prepare_call(self, session: ObservedSession, call: TrackedCall) -> None:
        """Let the servers read what a tool call is going to edit."""
        if call.kind == ToolKind.EDIT or call.diffs:
            for name in call.paths:
                if (path := _resolve(session, name)) is not None and session.servers.servers_for(path):
                    session.servers.prepare(path)

    def _own_writes(self, session: ObservedSession, call: TrackedCall) -> dict[str, str]:
        """Return the files that the agent wrote itself, as they are on the disk."""
        names = [name for name in call.diffs if name not in call.diagnosed]
        paths = [path for name in names if (path := _resolve(session, name)) and path not in call.diagnosed]
        found = {}
        for path in paths:
            if session.servers.servers_for(path) and (text := session.servers.read_text(path)) is not None:
                found[path] = text
        return found

    def _hold_update(
        self,
        session: ObservedSession,
        session_id: str,
        call: TrackedCall,
        texts: dict[str, str],
        deliver: Callable[[], Awaitable[None] | None],
    ) -> None:
        """Deliver the last update of a tool call when its diagnostics are there, or when they are late."""
        call.diagnosed.update(texts)
        for path in texts:
            _cancel_late(session, path)
        session.held.add(call.id, deliver)

        async def release() -> None:
            try:
                reports = await session.servers.diagnose(texts, UPDATE_TIMEOUT)
                if (text := format_report(reports, session.servers.folders[0])) != "":
                    call.note = _text_item(text)
            finally:
                await session.held.release(call.id)
            self._follow_late(session, session_id, reports, texts, (), call)

        task = asyncio.get_running_loop().create_task(release())
        session.holding.add(task)
        task.add_done_callback(lambda _: self._finish_holding(session, task))

    def _finish_holding(self, session: ObservedSession, task: asyncio.Task[None]) -> None:
        session.holding.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._report(f"the diagnostics of a tool call failed: {error}")

    # --- showing ----------------------------------------------------------------------------------------------------

    async def _show(
        self, session: ObservedSession, session_id: str, reports: Sequence[FileReport], call: TrackedCall | None
    ) -> TrackedCall | None:
        """Show a report in the tool call that wrote the files, or in one of our own."""
        folder = session.servers.folders[0]
        text = format_report(reports, folder)
        if not text:
            if call is None or call.note is None:
                return call
            text = NOTHING_FOUND
        if call is not None:
            call.note = _text_item(text)
            await self._send(session_id, call.note_update())
            return call
        session.own_calls += 1
        item = _text_item(text)
        update: dict[str, Any] = {
            "sessionUpdate": "tool_call",
            "toolCallId": f"diagnostics-{session.own_calls}",
            "title": "Diagnostics",
            "kind": ToolKind.READ,
            "status": ToolCallStatus.COMPLETED,
            "content": [item],
            "locations": [{"path": file.path, "line": each.line} for file in reports for each in file.after[:5]],
            "rawOutput": {"diagnostics": report_json(reports)},
        }
        own = session.calls.apply({**update, "content": []})
        if own is not None:
            own.note = item
        await self._send(session_id, update)
        return own

    async def _send(self, session_id: str, update: dict[str, Any]) -> None:
        sending = self._send_update(session_id, update)
        if sending is not None:
            await sending

    def _follow_late(
        self,
        session: ObservedSession,
        session_id: str,
        reports: Sequence[FileReport],
        texts: Mapping[str, str],
        created: Collection[str],
        call: TrackedCall | None,
    ) -> None:
        """Wait for the diagnostics of servers that were not ready, and show them as an update."""
        late = {report.path: texts[report.path] for report in reports if report.late and report.path in texts}
        if not late:
            return

        async def follow() -> None:
            found = await session.servers.diagnose(late, LATE_TIMEOUT, created=created)
            await self._show(session, session_id, found, call)

        task = asyncio.get_running_loop().create_task(follow())
        for path in late:
            session.late[path] = task
        task.add_done_callback(lambda _: [session.late.pop(path, None) for path in late])


def _delivery(
    call: TrackedCall | None, shows_note: bool, incoming: Incoming, handler: Handler, done: DoneCallback
) -> Callable[[], Awaitable[None] | None]:
    """Return what passes an update on, with the diagnostics that its tool call has by then."""
    content = call.content if call is not None else []  # as this update leaves it

    def deliver() -> Awaitable[None] | None:
        if call is not None and call.note is not None and shows_note:
            values = incoming.values
            incoming.values = {**values, "update": {**values["update"], "content": [*content, call.note]}}
        return handler(incoming, done)

    return deliver


async def _deliver_after(released: asyncio.Future[None], deliver: Callable[[], Awaitable[None] | None]) -> None:
    await asyncio.wait([released])
    work = deliver()
    if work is not None:
        await work


def _cancel_late(session: ObservedSession, path: str) -> None:
    """Drop late diagnostics of a file, because it is written again."""
    task = session.late.pop(path, None)
    if task is not None:
        task.cancel()


def _resolve(session: ObservedSession, path: Any) -> str | None:
    """Return the real path of a file of the session, or None."""
    try:
        return session.servers.files.resolve(path) if isinstance(path, str) else None
    except (ProtocolError, OSError, ValueError):
        return None


def _written_text(values: Any) -> dict[str, str]:
    path, content = values.get("path"), values.get("content")
    return {path: content} if isinstance(path, str) and isinstance(content, str) else {}


def _written_texts(values: Any) -> dict[str, str]:
    files = values.get("files")
    found: dict[str, str] = {}
    for file in files if isinstance(files, list) else ():
        found |= _written_text(file) if isinstance(file, dict) else {}
    return found


def _text_item(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}
