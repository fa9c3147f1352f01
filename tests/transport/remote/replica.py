"""One of several servers of the same agent: it needs a token, and keeps its sessions in a shared store.

python -m tests.transport.remote.replica NAME STORE TOKEN [CERT KEY]

Prints its address and serves until its input ends. Every answer names the server.
"""

from __future__ import annotations

import asyncio
import hmac
import sys

from dragoman import Agent, Turn
from dragoman.store.sqlite import SqliteStore
from dragoman.transport.remote.server.auth import AuthRequest, Principal, bearer_token, unauthorized_error


async def main(name: str, store: str, token: str, *tls: str) -> None:
    """Serve until the standard input ends."""
    agent = Agent("replica", store=SqliteStore(store))

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(f"{name} heard {turn.text}")

    async def admit(request: AuthRequest) -> Principal:
        if not hmac.compare_digest(bearer_token(request) or "", token):
            raise unauthorized_error("show the token")
        return Principal(user="ann")

    async with agent.serve_http(authenticate=admit, tls=(tls[0], tls[1]) if tls else None) as served:
        print(served.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
