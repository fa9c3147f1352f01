"""A server of ours for a whole module, in a thread with its own loop; tests use raw clients."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from dragoman import Agent, Turn
from dragoman.transport.base import Transport
from dragoman.transport.remote.server.auth import Principal
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.listener import Listener, open_listener

# Nothing here takes longer unless it hangs. Seconds.
WITHIN = 90.0

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
NEW = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/tmp", "mcpServers": []}}

agent = Agent("standing")


@agent.prompt
async def answer(turn: Turn) -> None:
    """Repeat the prompt, word by word."""
    for word in turn.text.split():
        await turn.say(word)


async def accept(transport: Transport, client: Principal) -> None:
    """Serve one client with the agent."""
    await agent.serve(transport)


def prompt(session: str, text: str, id: int = 2) -> dict[str, Any]:
    """A prompt as it is on the wire."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}


class Standing:
    """The server's thread and address."""

    def __init__(self, app: Any, tls: tuple[str, str] | None = None, **options: Any) -> None:
        self.app = app
        self.url = ""
        self.port = 0
        self.served: Listener
        self.loop = asyncio.new_event_loop()
        self._options = {"tls": tls, **options}
        self._ready = threading.Event()
        self._over: asyncio.Event
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(WITHIN), "the server did not start"

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._serve())
        self.loop.close()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        async with open_listener(self.app, **self._options) as self.served:
            self.url, self.port = self.served.url, self.served.port
            self._ready.set()
            await self._over.wait()
        self.left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    def ask(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WITHIN)

    def close(self) -> None:
        """Stop the server and check that nothing is left."""
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(WITHIN)
        assert not self._thread.is_alive(), "the server did not end"
        assert self.left == [], "tasks of the server were left"

    def connect(self) -> httpx.Client:
        """A raw client."""
        return httpx.Client(base_url=self.url, timeout=WITHIN)

    def dial(self) -> socket.socket:
        """A bare socket."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=WITHIN)

    def initialized(self, client: httpx.Client) -> dict[str, str]:
        """The header that names a new connection."""
        answer = client.post("", json=INITIALIZE)
        assert answer.status_code == 200, answer.text
        return {"acp-connection-id": answer.headers["acp-connection-id"]}


@contextmanager
def standing(**options: Any) -> Iterator[Standing]:
    """A server of the agent above, until the block ends."""
    tls = options.pop("tls", None)
    there = Standing(Endpoint(accept, **options), tls=tls)
    try:
        yield there
    finally:
        there.close()


def rest(end: socket.socket) -> bytes:
    """Return what the server still sends before it closes; a hang fails by timeout."""
    data = b""
    try:
        while piece := end.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data
