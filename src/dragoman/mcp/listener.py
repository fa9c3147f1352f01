"""An offered MCP server for agents without MCP over ACP: over HTTP on loopback, or over stdio by a shim.

Both speak both eras. A token opens one server. The HTTP server refuses foreign origins and too many requests at once.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from typing import Any
from urllib.parse import urlsplit

from dragoman.errors import StartFailed
from dragoman.mcp.limits import CLOSE_TIMEOUT, OPEN_TIMEOUT
from dragoman.mcp.offers import OfferedServer
from dragoman.schema.mcp import McpForm, McpServer, NameValue
from dragoman.transport.process.module_command import module_command

# Requests at once, and bytes of one request: what both official SDKs allow.
MAX_REQUESTS = 64
MAX_BODY = 1024 * 1024

# The variable with which the shim gets its token.
TOKEN_VARIABLE = "DRAGOMAN_MCP_TOKEN"

# One line of a client of the shim.
_MAX_LINE = 16 * 1024 * 1024


class Exports:
    """The offered servers of one ACP connection that an agent reaches by an address or a command."""

    def __init__(self) -> None:
        self._serving: dict[tuple[str, str], tuple[McpServer, AsyncExitStack]] = {}

    async def entry(self, server: OfferedServer, form: str) -> McpServer:
        """Return the entry of a server in this form ("http" or "stdio"); it is served from then on."""
        key = (server.server_id, form)
        if key not in self._serving:
            serve = serve_http if form == McpForm.HTTP else serve_shim
            stack = AsyncExitStack()
            self._serving[key] = (await stack.enter_async_context(serve(server)), stack)
        return self._serving[key][0]

    async def withdraw(self, server: OfferedServer) -> None:
        """Stop serving one server."""
        for key in [key for key in self._serving if key[0] == server.server_id]:
            await _leave(self._serving.pop(key)[1])

    async def close(self) -> None:
        """Stop serving."""
        serving, self._serving = list(self._serving.values()), {}
        await asyncio.gather(*(_leave(stack) for _, stack in serving))


async def _leave(stack: AsyncExitStack) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await stack.aclose()


@asynccontextmanager
async def serve_http(server: OfferedServer, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[McpServer]:
    """Serve a server over HTTP on loopback; gives its entry, with the token in a header."""
    token = secrets.token_urlsafe(32)
    async with serve_app(server.server, token, host=host, port=port) as url:
        headers = [NameValue(name="Authorization", value=f"Bearer {token}")]
        yield McpServer(name=server.name, type=McpForm.HTTP, url=url, headers=headers)


@asynccontextmanager
async def serve_app(server: Any, token: str, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve an MCPServer of the SDK with a token; gives its address. Raise StartFailed if the port cannot be used."""
    import uvicorn

    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(MAX_REQUESTS)
    except (OSError, OverflowError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or "a port is a number from 0 to 65535"
        raise StartFailed(f"cannot listen on {host}:{port}: {why}; choose another port, or 0 for any") from error
    app = _Guard(server.streamable_http_app(max_request_body_size=MAX_BODY, host=host), token)
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=1)
    http: Any = uvicorn.Server(config)
    http.capture_signals = nullcontext  # signals belong to the program, not to this server
    task = asyncio.create_task(http.serve(sockets=[listening]))
    try:
        await _wait_started(http, task)
        yield f"http://{host}:{listening.getsockname()[1]}/mcp"
    finally:
        http.should_exit = True
        app.close()
        await asyncio.wait([task], timeout=CLOSE_TIMEOUT)
        task.cancel()
        listening.close()


async def _wait_started(http: Any, task: asyncio.Task[Any]) -> None:
    async with asyncio.timeout(OPEN_TIMEOUT):
        while not http.started and not task.done():  # noqa: ASYNC110  (uvicorn has no event for it)
            await asyncio.sleep(0.005)


class _Guard:
    """An ASGI app in front of the SDK's: it checks the origin and the token before anything is read."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._token = token
        self._running: set[asyncio.Task[Any]] = set()
        self._is_closing = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = self._refusal(scope)
        if status:
            headers = [(b"content-type", b"application/json")]
            if status == 401:
                headers.append((b"www-authenticate", b"Bearer"))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-33000,"message":"refused"}}'
            await send({"type": "http.response.body", "body": body})
            return
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        response = _Response(send)
        try:
            await self._app(scope, receive, response)
        except asyncio.CancelledError:
            if not self._is_closing:
                raise
            await response.finish()
        finally:
            self._running.discard(task)

    def close(self) -> None:
        """End the requests that run: streams of events would go on for ever."""
        self._is_closing = True
        for task in self._running:
            task.cancel()

    def _refusal(self, scope: Any) -> int:
        """Return the HTTP status with which a request is refused; 0 if it is not."""
        given: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.lower(), []).append(value)
        if any(len(given.get(name, ())) > 1 for name in (b"authorization", b"origin", b"host")):
            return 400
        host = given.get(b"host", [b""])[0].decode("latin-1")
        for origin in given.get(b"origin", ()):
            if urlsplit(origin.decode("latin-1")).netloc != host:
                return 403
        expected = f"Bearer {self._token}"
        bearer = given.get(b"authorization", [b""])[0].decode("latin-1")
        if not secrets.compare_digest(bearer.encode(), expected.encode()):
            return 401
        return 429 if len(self._running) >= MAX_REQUESTS else 0


class _Response:
    """The answer to one request, which can be ended early."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self._has_begun = False

    async def __call__(self, message: Any) -> None:
        """Send a part of the answer."""
        self._has_begun = self._has_begun or message["type"] == "http.response.start"
        await self._send(message)

    async def finish(self) -> None:
        """End the answer: nobody reads it any more."""
        if not self._has_begun:
            await self._send({"type": "http.response.start", "status": 503, "headers": []})
        await self._send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def serve_shim(server: OfferedServer) -> AsyncIterator[McpServer]:
    """Serve a server on a local socket; gives the entry of a command that connects its stdio with that socket."""
    folder = tempfile.mkdtemp(prefix="dragoman-mcp-")  # only this user may enter it
    path = os.path.join(folder, "socket")
    token = secrets.token_urlsafe(32)
    tasks: set[asyncio.Task[Any]] = set()

    async def on_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            line = await asyncio.wait_for(reader.readline(), OPEN_TIMEOUT)
            if secrets.compare_digest(line.strip(), token.encode()):
                await _serve_lines(server, reader, writer)
        except (OSError, TimeoutError, ValueError, asyncio.CancelledError):
            return  # the other end left, is not the shim, or we stop serving
        finally:
            tasks.discard(task)
            writer.close()

    listener = await asyncio.start_unix_server(on_client, path, limit=_MAX_LINE)
    try:
        env = [NameValue(name=TOKEN_VARIABLE, value=token)]
        command, *arguments = module_command("dragoman.mcp.shim")
        yield McpServer(name=server.name, command=command, args=[*arguments, path], env=env)
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
        with suppress(OSError):
            os.unlink(path)
        with suppress(OSError):
            os.rmdir(folder)


async def _serve_lines(server: OfferedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Run one session of the server over lines of JSON, in the era that the client begins with."""
    import anyio
    import mcp_types as types
    from mcp.shared.message import SessionMessage

    received, read_stream = anyio.create_memory_object_stream[Any](0)
    write_stream, sent = anyio.create_memory_object_stream[Any](0)

    async def read() -> None:
        async with received:
            while line := await reader.readline():
                with suppress(ValueError):
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await received.send(SessionMessage(message))

    async def write() -> None:
        async with sent:
            async for item in sent:
                writer.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await writer.drain()

    pumps = [asyncio.create_task(read()), asyncio.create_task(write())]
    try:
        lowlevel = server.lowlevel
        await lowlevel.run(read_stream, write_stream, lowlevel.create_initialization_options())
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
