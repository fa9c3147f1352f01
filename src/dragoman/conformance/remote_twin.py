"""A sound agent behind HTTP and WebSocket, and its broken twins: the same with one fault between it and the world.

A fault wraps the ASGI app, stands between the sockets, or lifts a limit. Clients have theirs in the same place, on the
tester's side of the wire: what it hears and says there is changed as a bad client would have it. As a command:

    python -m dragoman.conformance.remote_twin --fault agent.http.36
    dragoman check agent http://127.0.0.1:PORT/acp
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from dragoman.conformance.twin import Fault, faults
from dragoman.errors import Kind
from dragoman.transport.remote.server.auth import AuthRequest, Principal, Refused
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.transport.remote.server.origin import authenticate_local, current_user

App = Callable[..., Awaitable[None]]

# What one side of a socket says, piece by piece; None ends it.
Tampers = Callable[[bytes], bytes | None]

PIECE = 64 * 1024


class RemoteFault(Fault, frozen=True, kw_only=True):
    """A fault of the wire: around the app, between the sockets (towards the server, towards the client), in a limit."""

    around: Callable[[App], App] | None = None
    towards_server: Tampers | None = None
    towards_client: Tampers | None = None
    limits: ServerLimits | None = None


SOUND = RemoteFault()


def wrapped(app: App, fault: Fault) -> App:
    """The app with the fault around it."""
    around = fault.around if isinstance(fault, RemoteFault) else None
    return around(app) if around is not None else app


def door(token: str) -> Callable[[AuthRequest], Awaitable[Principal]]:
    """Who comes in: whoever has this token; without one, the owner."""

    async def admit(knock: AuthRequest) -> Principal:
        if not token:
            return await authenticate_local(knock)
        if knock.headers.get("authorization") != f"Bearer {token}":
            headers = {"www-authenticate": "Bearer"}
            raise Refused(401, "the token is missing or not ours", headers, kind=Kind.AUTH_REQUIRED)
        return Principal(user=current_user(), is_local=True, address=knock.address)

    return admit


@asynccontextmanager
async def twin(fault: Fault, *, dialect: str = "auto", token: str = "") -> AsyncIterator[str]:
    """Our everything agent with this fault, at an address, while the block lasts."""
    from dragoman.agents.everything.agent import everything
    from dragoman.transport.remote.server.listener import open_listener

    limits = fault.limits if isinstance(fault, RemoteFault) else None
    app = everything(dialect).asgi(authenticate=door(token), limits=limits, report=lambda _: None)
    try:
        async with (
            open_listener(wrapped(app, fault), limits=limits or ServerLimits()) as served,
            relayed(served.url, fault) as url,
        ):
            yield url
            await app.close()
    finally:
        await app.close()


@asynccontextmanager
async def relayed(url: str, fault: Fault) -> AsyncIterator[str]:
    """The address of a relay that tampers with what passes; the server's own where the fault is not of that kind."""
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
    """Serve a twin until Ctrl-C."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m dragoman.conformance.remote_twin", description=__doc__)
    parser.add_argument("--fault", default="", metavar="ID", help="the id of the requirement that must find it")
    options = parser.parse_args(arguments)
    if options.fault and not isinstance(faults().get(options.fault), RemoteFault):
        parser.error(f"there is no fault of a server for {options.fault}")

    async def serve() -> None:
        async with twin(faults()[options.fault] if options.fault else SOUND) as url:
            print(url, flush=True)
            await asyncio.Event().wait()

    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    import sys
    from importlib import import_module

    # The faults register themselves in the module by its own name, not in this one, which is called __main__.
    sys.exit(import_module("dragoman.conformance.remote_twin").main(sys.argv[1:]))
