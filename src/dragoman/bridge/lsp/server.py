"""One language server of a session in one folder: started on first use, restarted after a crash, stopped when idle.

A crash delays the next start; after the third one the server stays off, and the user is told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import msgspec

from dragoman.bridge.lsp.client_capabilities import expand_folder
from dragoman.bridge.lsp.connection import ServerConnection
from dragoman.bridge.lsp.framing import HeaderFraming
from dragoman.bridge.lsp.server_table import ServerRow
from dragoman.errors import ConnectionFailed, DragomanError, ProtocolError, StartFailed
from dragoman.transport.process.process_tree import StopTimeouts
from dragoman.transport.process.transport import spawn
from dragoman.transport.sandbox.spec import Sandbox

# pyright and gopls take seconds to start on a busy machine. Seconds.
INITIALIZE_TIMEOUT = 45.0

# Restarts after a crash, and the delay before the first; each further one waits twice as long. Seconds.
MAX_RESTARTS = 3
FIRST_DELAY = 0.5

# A server that ran for this long without a crash may crash three times again. Seconds.
STABLE_TIME = 300.0

# A server that nobody used for this long is stopped; the next use starts it again. Seconds.
IDLE_TIMEOUT = 600.0

# Requests in a row without an answer, after which the server counts as hung and is restarted.
MAX_TIMEOUTS = 3

# After `exit` a server may take this long; then its process group is ended.
STOP_TIMEOUTS = StopTimeouts(eof=1.0, term=1.0, kill=2.0)

T = TypeVar("T")


class ServerOff(DragomanError):
    """A language server that cannot be used any more; the message says why."""


class ServerState:
    """The states of a server, as `dragoman lsp status` shows them."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting to restart"
    OFF = "off"


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all servers of a session share."""

    folders: tuple[str, ...]  # of the session, which a sandboxed server may use
    sandbox: Sandbox | None = None
    report: Callable[[str], None] = lambda text: None  # one line for the user
    version: str = "0"
    initialize_timeout: float = INITIALIZE_TIMEOUT
    first_delay: float = FIRST_DELAY
    idle_timeout: float = IDLE_TIMEOUT
    stop_timeouts: StopTimeouts = STOP_TIMEOUTS


class StartConnection(Protocol):
    """Starts a process; replaced in tests of the life cycle."""

    def __call__(self, row: ServerRow, root: str, settings: ServerSettings) -> Awaitable[ServerConnection]:
        """Return the connection to a new process."""
        ...


async def start_process(row: ServerRow, root: str, settings: ServerSettings) -> ServerConnection:
    """Start the process of a server, in a sandbox if the session has one; raise StartFailed."""
    transport = await spawn(
        row.argv,
        cwd=root,
        env=row.env or None,
        peer=f"language server {row.name}",
        sandbox=settings.sandbox,
        roots=settings.folders,
        framing=HeaderFraming(),
        stop_timeouts=settings.stop_timeouts,
    )
    return ServerConnection(transport, row.name, root, expand_folder(row.settings, root))


class LanguageServer:
    """A server for one group of languages in one folder. `rows` are tried in order until one starts."""

    def __init__(
        self,
        rows: Sequence[ServerRow],
        root: str,
        settings: ServerSettings,
        start: StartConnection = start_process,
    ) -> None:
        self.root = root
        self.state = ServerState.STOPPED
        self.reason = ""  # why it is off
        self.crashes = 0
        self._rows = list(rows)
        self._settings = settings
        self._start = start
        self._connection: ServerConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # short ones, which end by themselves
        self._changed = asyncio.Event()
        self._timeouts = 0
        self._was_initialized = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stopping = False

    @property
    def row(self) -> ServerRow:
        """The row that is used."""
        return self._rows[0]

    @property
    def name(self) -> str:
        """The name of the server."""
        return self.row.name

    @property
    def connection(self) -> ServerConnection | None:
        """The connection, if the server is running."""
        return self._connection if self.state == ServerState.RUNNING else None

    # --- use ----------------------------------------------------------------------------------------------------

    async def use(self, work: Callable[[ServerConnection, float], Awaitable[T]], timeout: float) -> T:
        """Do something with the running server: start it first, and repeat it if the server crashes meanwhile.

        `work` gets the connection and the time that is left. Raise TimeoutError, ServerOff, or the server's error.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            async with asyncio.timeout_at(deadline):
                connection = await self._ready()
            self._restart_idle_timer()
            try:
                result = await work(connection, max(deadline - loop.time(), 0.001))
            except ConnectionFailed:
                if loop.time() >= deadline:
                    raise TimeoutError(f"{self.name} did not answer in time") from None
                await self._wait_lost(connection, deadline)
                continue
            except TimeoutError:
                self._note_timeout(connection)
                raise
            self._timeouts = 0
            return result

    async def _ready(self) -> ServerConnection:
        """Return the running connection; start the server if it is stopped."""
        while True:
            if self.connection is not None and self.connection.client.failure is None:
                return self.connection
            if self.state == ServerState.OFF:
                raise ServerOff(f"the language server {self.name} is off: {self.reason}")
            if self._stopping:
                raise ServerOff(f"the language server {self.name} was stopped")
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._run())
            self._changed.clear()
            await self._changed.wait()

    async def _wait_lost(self, connection: ServerConnection, deadline: float) -> None:
        """Wait until the loss of a connection is noticed."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while self._connection is connection:
                    self._changed.clear()
                    await self._changed.wait()

    def _note_timeout(self, connection: ServerConnection) -> None:
        self._timeouts += 1
        if self._timeouts >= MAX_TIMEOUTS and self._connection is connection:
            self._timeouts = 0
            # Its end counts as a crash.
            self._start_task(connection.transport.close("it no longer answers"))

    # --- life cycle ---------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Run the server until it is stopped or off."""
        loop = asyncio.get_running_loop()
        while not self._stopping:
            self._set_state(ServerState.STARTING)
            started = loop.time()
            error = await self._run_once()
            if error is None:
                self._set_state(ServerState.STOPPED)
                return
            if not self._was_initialized and len(self._rows) > 1:
                self._rows.pop(0)  # for example TypeScript 5, whose tsc is no language server
                continue
            if loop.time() - started > STABLE_TIME:
                self.crashes = 0
            self.crashes += 1
            if isinstance(error, StartFailed) or self.crashes > MAX_RESTARTS:
                self._turn_off(str(error))
                return
            self._set_state(ServerState.WAITING)
            await asyncio.sleep(self._settings.first_delay * 2 ** (self.crashes - 1))

    async def _run_once(self) -> Exception | None:
        """Start the process and read from it; return why it ended, or None if we stopped it."""
        try:
            connection = await self._start(self.row, self.root, self._settings)
        except (ConnectionFailed, OSError) as error:
            return error
        self._connection = connection
        reading = asyncio.get_running_loop().create_task(connection.client.run())
        try:
            await connection.initialize(self._settings.version, self._settings.initialize_timeout)
            self._was_initialized = True
            self._set_state(ServerState.RUNNING)
            reason = await reading
            return None if self._stopping else reason
        except TimeoutError:
            return ConnectionFailed(f"it did not answer initialize in {self._settings.initialize_timeout:g} s")
        except (ProtocolError, ConnectionFailed) as error:
            return error
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError, ConnectionFailed):
                await reading
            self._connection = None
            self._changed.set()
            await asyncio.shield(connection.transport.close("the language server was ended"))

    def _turn_off(self, reason: str) -> None:
        self.reason = reason
        self._set_state(ServerState.OFF)
        self._settings.report(f"the language server {self.name} is off for this session: {reason}")

    def _set_state(self, state: str) -> None:
        self.state = state
        self._changed.set()

    def _restart_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        loop = asyncio.get_running_loop()
        self._idle_timer = loop.call_later(self._settings.idle_timeout, lambda: self._start_task(self._stop_idle()))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stop_idle(self) -> None:
        await self.stop()
        self._stopping = False

    async def stop(self) -> None:
        """Let the server exit, and end it with all its processes if it does not."""
        self._stopping = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        task, connection = self._task, self.connection
        if task is None or task.done():
            return
        if connection is not None:
            await connection.shut_down()
        task.cancel()  # its cleanup ends the process
        with suppress(asyncio.CancelledError):
            await task
        if self.state != ServerState.OFF:
            self._set_state(ServerState.STOPPED)

    def status(self) -> dict[str, Any]:
        """Return what `dragoman lsp status` and tests show."""
        connection = self.connection
        values: dict[str, Any] = {"name": self.name, "root": self.root, "state": self.state, "crashes": self.crashes}
        if self.reason:
            values["reason"] = self.reason
        if connection is not None:
            values |= {"encoding": connection.encoding, "documents": len(connection.documents)}
            values["pid"] = getattr(connection.transport, "pid", None)
        return values
