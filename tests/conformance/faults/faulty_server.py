"""Our everything agent behind HTTP and WebSocket, with a fault around the app, between the sockets, or in a limit.

The faults of clients are seeded in the same place, on the checker's side of the wire. As a command:

    python -m tests.conformance.faults.faulty_server --fault agent.http.36
    dragoman check agent http://127.0.0.1:PORT/acp
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from dragoman.errors import Kind
from dragoman.transport.remote.server.auth import AuthRequest, Principal, Refused
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.transport.remote.server.origin import authenticate_local, current_user
from tests.conformance.faults.fault import NO_FAULT, App, Fault, RemoteFault, Tampers, faults

PIECE = 64 * 1024


def wrap_app(app: App, fault: Fault) -> App:
    """Return the app with the fault around it."""
    wrapper = fault.wrapper if isinstance(fault, RemoteFault) else None
    return wrapper(app) if wrapper is not None else app


def authenticator(token: str) -> Callable[[AuthRequest], Awaitable[Principal]]:
    """Accept clients with this token; without a token, the local user."""

    async def admit(auth_request: AuthRequest) -> Principal:
        if not token:
            return await authenticate_local(auth_request)
        if auth_request.headers.get("authorization") != f"Bearer {token}":
            headers = {"www-authenticate": "Bearer"}
            raise Refused(401, "the token is missing or not ours", headers, kind=Kind.AUTH_REQUIRED)
        return Principal(user=current_user(), is_local=True, address=auth_request.address)

    return admit


@asynccontextmanager
async def serve_faulty(fault: Fault, *, dialect: str = "auto", token: str = "") -> AsyncIterator[str]:
    """Serve our everything agent with this fault; give its URL."""
    from dragoman.agents.everything.agent import everything
    from dragoman.transport.remote.server.listener import open_listener

    limits = fault.limits if isinstance(fault, RemoteFault) else None
    app = everything(dialect).asgi(authenticate=authenticator(token), limits=limits, report=lambda _: None)
    try:
        async with (
            open_listener(wrap_app(app, fault), limits=limits or ServerLimits()) as served,
            relay(served.url, fault) as url,
        ):
            yield url
            await app.close()
    finally:
        await app.close()


@asynccontextmanager
async def relay(url: str, fault: Fault) -> AsyncIterator[str]:
    """Give the URL of a relay that changes the bytes; the server's own URL if the fault needs none."""
    there = fault.towards_server if isinstance(fault, RemoteFault) else None
    back = fault.towards_client if isinstance(fault, RemoteFault) else None
    if there is None and back is None:
        yield url
        return
    host, _, port = url.partition("//")[2].partition("/")[0].rpartition(":")
    tasks: set[asyncio.Task[Any]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tampers: Tampers | None) -> None:
        try:
            while data := await reader.read(PIECE):
                made = tampers(data) if tampers is not None else data
                if made is None:
                    break
                writer.write(made)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection(host, int(port))
        for work in (pump(reader, outer, there), pump(inner, writer, back)):
            task = asyncio.ensure_future(work)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(relay, host, 0)
    try:
        yield url.replace(f":{port}/", f":{server.sockets[0].getsockname()[1]}/")
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main(arguments: list[str]) -> int:
    """Serve a faulty agent until Ctrl-C."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m tests.conformance.faults.faulty_server", description=__doc__)
    parser.add_argument("--fault", default="", metavar="ID", help="the id of the requirement that must find it")
    options = parser.parse_args(arguments)
    if options.fault and not isinstance(faults().get(options.fault), RemoteFault):
        parser.error(f"there is no fault of a server for {options.fault}")

    async def serve() -> None:
        async with serve_faulty(faults()[options.fault] if options.fault else NO_FAULT) as url:
            print(url, flush=True)
            await asyncio.Event().wait()

    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
