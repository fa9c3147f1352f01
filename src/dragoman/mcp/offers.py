"""Python functions offered as an MCP server, and one session with such a server, in this process.

A request of the modern era is served by itself. An older client has a session of its own, with a handshake.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from dragoman.errors import DragomanError, ForeignError
from dragoman.mcp.sdk import HOW_TO_INSTALL, SdkMissing, is_installed

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"

# Codes of MCP: a version that the server does not have, invalid params.
UNSUPPORTED_VERSION, INVALID_PARAMS = -32022, -32602

# How pydantic begins the second line of each invalid argument.
_LINK_LINE = "For further information visit https://errors.pydantic.dev/"

logger = logging.getLogger("dragoman")

# How long a session may take to end its tasks. Seconds.
_CLOSE_TIMEOUT = 2.0

Notify = Callable[[str, dict[str, Any] | None], None]
Request = Callable[[str, dict[str, Any] | None], Awaitable[Any]]


class HandlerFailed(Exception):
    """The server itself failed in a request; `details` says how."""

    def __init__(self, details: str) -> None:
        super().__init__(details)
        self.details = details


class OfferedServer:
    """An MCP server in this process. `server_id` names it on one ACP connection and is never used again."""

    def __init__(self, name: str, server: Any) -> None:
        """`server` is an MCPServer of the SDK."""
        self.name = name
        self.server_id = f"{name}:{uuid.uuid4()}"
        self.server = server
        self.lowlevel = getattr(server, "_lowlevel_server", server)
        self._serve: Any = None
        self._lifespan: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def request(self, method: str, params: Mapping[str, Any] | None, notify: Notify) -> dict[str, Any]:
        """Serve one request of the modern era; raise ForeignError for an error of MCP, HandlerFailed for a fault."""
        from mcp.shared.exceptions import MCPError

        check_envelope(params)
        serve = await self._started()
        try:
            answer = await serve(_RequestContext(params, notify), method, params)
        except MCPError as error:
            raise ForeignError(error.code, error.message, error.data) from None
        except ValueError as error:  # the params do not fit the method
            raise ForeignError(INVALID_PARAMS, "Invalid request parameters", str(error)) from None
        except Exception as error:
            raise HandlerFailed(str(error) or type(error).__name__) from error
        return dict(answer)

    async def _started(self) -> Any:
        """Enter the lifespan of the server in a task that stays, and return what serves a request."""
        if self._serve is None:
            ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._lifespan = asyncio.create_task(self._live(ready))
            self._serve = ready
        return await asyncio.shield(self._serve)

    async def _live(self, ready: asyncio.Future[Any]) -> None:
        from mcp.server.runner import modern_on_request

        try:
            async with self.lowlevel.lifespan(self.lowlevel) as state:
                ready.set_result(modern_on_request(self.lowlevel, state))
                await self._stop.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(HandlerFailed(str(error)))

    async def close(self) -> None:
        """End the server."""
        self._stop.set()
        if self._lifespan is not None:
            await asyncio.wait([self._lifespan], timeout=_CLOSE_TIMEOUT)
            self._lifespan.cancel()


def check_envelope(params: Mapping[str, Any] | None) -> None:
    """Raise ForeignError unless the params have the version of the modern era."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    meta = (params or {}).get("_meta")
    version = meta.get(VERSION_KEY) if isinstance(meta, Mapping) else None
    if not isinstance(version, str):
        raise ForeignError(INVALID_PARAMS, f"params._meta has no {VERSION_KEY}")
    if version not in MODERN_PROTOCOL_VERSIONS:
        supported = list(MODERN_PROTOCOL_VERSIONS)
        raise ForeignError(
            UNSUPPORTED_VERSION, "Unsupported protocol version", {"supported": supported, "requested": version}
        )


def has_envelope(params: Mapping[str, Any] | None) -> bool:
    """Return whether a request is of the modern era."""
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and isinstance(meta.get(VERSION_KEY), str)


def with_envelope(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return params of the modern era for a caller that made no handshake and knows no era."""
    from mcp_types.version import LATEST_MODERN_VERSION

    given = dict(params or {})
    meta = given.get("_meta") if isinstance(given.get("_meta"), dict) else {}
    client = {"name": "acp", "version": "0"}
    defaults = {VERSION_KEY: LATEST_MODERN_VERSION, CLIENT_KEY: client, CAPABILITIES_KEY: {}}
    return {**given, "_meta": {**defaults, **(meta or {})}}


class _RequestContext:
    """What the SDK needs to know of a request: how to notify its caller."""

    message_metadata = None

    def __init__(self, params: Mapping[str, Any] | None, notify: Notify) -> None:
        import anyio
        from mcp.shared.transport_context import TransportContext

        self.transport = TransportContext(kind="acp", can_send_request=False)
        self.can_send_request = False
        self.request_id = str(uuid.uuid4())
        self.cancel_requested = anyio.Event()
        self._token = ((params or {}).get("_meta") or {}).get("progressToken")
        self._notify = notify

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Send a notification to the caller."""
        self._notify(method, None if params is None else dict(params))

    async def send_raw_request(self, method: str, params: Any, opts: Any = None) -> dict[str, Any]:
        """Refuse: a server of this era asks nothing in the other direction."""
        from mcp.shared.exceptions import NoBackChannelError

        raise NoBackChannelError(method)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the caller wants it."""
        if self._token is None:
            return
        more = {"total": total, "message": message}
        params = {"progressToken": self._token, "progress": progress}
        self._notify("notifications/progress", params | {k: v for k, v in more.items() if v is not None})


class StreamSession:
    """A session of the handshake era with a server in this process."""

    def __init__(self, server: OfferedServer, notify: Notify, request: Request) -> None:
        """`notify` and `request` reach the client of the session."""
        self._server = server.lowlevel
        self._notify = notify
        self._request = request
        self._pending: dict[str, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent: Any = None
        self._keeper = asyncio.create_task(self._keep())
        self._is_ready = asyncio.Event()

    async def request(self, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        """Send a request to the server; raise ForeignError."""
        import mcp_types as types

        id = f"r{uuid.uuid4()}"
        answer = self._pending[id] = asyncio.get_running_loop().create_future()
        try:
            await self._send(types.JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params=_dict(params)))
            message = await answer
        except asyncio.CancelledError:
            await self._send_notification("notifications/cancelled", {"requestId": id})
            raise
        finally:
            self._pending.pop(id, None)
        if isinstance(message, types.JSONRPCError):
            raise ForeignError(message.error.code, message.error.message, message.error.data)
        return dict(message.result)

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification to the server."""
        await self._send_notification(method, _dict(params))

    async def close(self) -> None:
        """End the session."""
        for task in (*self._tasks, self._keeper):
            task.cancel()
        await asyncio.wait([self._keeper], timeout=_CLOSE_TIMEOUT)

    async def _send_notification(self, method: str, params: Any) -> None:
        import mcp_types as types

        await self._send(types.JSONRPCNotification(jsonrpc="2.0", method=method, params=params))

    async def _send(self, message: Any) -> None:
        from mcp.shared.message import SessionMessage

        await self._is_ready.wait()
        await self._sent.send(SessionMessage(message))

    async def _keep(self) -> None:
        import anyio

        self._sent, read = anyio.create_memory_object_stream[Any](16)
        write, received = anyio.create_memory_object_stream[Any](16)
        reader = asyncio.create_task(self._read(received))
        self._is_ready.set()
        try:
            await self._server.run(read, write, self._server.create_initialization_options())
        finally:
            reader.cancel()
            closed = ForeignError(-32000, "the MCP server ended")
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(closed)

    async def _read(self, received: Any) -> None:
        import mcp_types as types

        async for item in received:
            message = item.message
            if isinstance(message, types.JSONRPCNotification):
                self._notify(message.method, message.params)
            elif isinstance(message, types.JSONRPCRequest):
                task = asyncio.create_task(self._ask_client(message))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif (answer := self._pending.get(str(message.id))) is not None and not answer.done():
                answer.set_result(message)

    async def _ask_client(self, message: Any) -> None:
        import mcp_types as types

        from dragoman.errors import DragomanError

        try:
            result = await self._request(message.method, message.params)
            await self._send(types.JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result or {}))
        except DragomanError as error:
            code = getattr(error, "code", None) or -32603
            fault = types.ErrorData(code=code, message=str(error))
            await self._send(types.JSONRPCError(jsonrpc="2.0", id=message.id, error=fault))


def _dict(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if params is None else dict(params)


def build_server(name: str, functions: Sequence[Callable[..., Any]]) -> OfferedServer:
    """Return a server whose tools are these functions: name, docstring and annotations describe each.

    The SDK runs a function that is not `async` in a thread, so that it does not hold up the event loop.
    """
    if not is_installed():
        raise SdkMissing(name, HOW_TO_INSTALL)
    server = sdk_server(name)
    for function in functions:
        try:
            server.add_tool(with_readable_errors(function))
        except Exception as error:  # the SDK has several classes for one mistake
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            advice = "annotate its parameters with types that JSON has: str, int, float, bool, list, dict, a TypedDict"
            raise TypeError(f"the tool {function.__name__} has no schema: {why}; {advice}") from error
    return OfferedServer(name, server)


def with_readable_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose errors the model can read: the SDK hides all but its own, and prints a traceback."""
    from mcp.server.mcpserver.exceptions import MCPServerError, ToolError
    from mcp.shared.exceptions import MCPError

    @contextmanager
    def tell_errors() -> Iterator[None]:
        try:
            yield
        except (MCPError, MCPServerError):
            raise
        except Exception as error:
            logger.debug("the tool %s failed", function.__name__, exc_info=True)
            raise ToolError(_error_text(error)) from error

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            with tell_errors():
                return await function(*args, **kwargs)

        return call_async

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with tell_errors():
            return function(*args, **kwargs)

    return call


def _error_text(error: Exception) -> str:
    """Return what a model reads of an error. Our own texts need no name of a class, and those of others may."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, DragomanError) and text:
        return text
    return f"{name}: {text}" if text else name


def sdk_server(name: str, **settings: Any) -> Any:
    """Return an MCPServer of the SDK, without the logging that it would set up for the whole program."""
    from mcp.server.mcpserver import MCPServer

    handler = logging.NullHandler()
    logging.root.addHandler(handler)
    try:
        server = MCPServer(name, **settings)
    finally:
        logging.root.removeHandler(handler)
    _remove_links(server)
    return server


def _remove_links(server: Any) -> None:
    """Remove the links to pydantic's pages from what the model reads about invalid arguments."""
    from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError

    call_tool = server.call_tool

    async def call_without_links(*args: Any) -> Any:
        try:
            return await call_tool(*args)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            lines = [line for line in str(error).splitlines() if not line.strip().startswith(_LINK_LINE)]
            raise ToolError("\n".join(lines)) from error.__cause__

    server.call_tool = call_without_links
