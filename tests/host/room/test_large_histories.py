"""A history larger than the limit of unread bytes reaches a client, over WebSocket and over HTTP."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from dragoman import connect
from dragoman.config.config_file import NamedAgent
from dragoman.host.auth.roles import MemorySessionRoles
from dragoman.host.host import Host
from dragoman.host.limits import HostLimits
from dragoman.store.contract import Draft, EntryKind
from dragoman.store.memory import MemoryStore
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.transport.remote.server.listener import open_listener
from dragoman.transport.remote.server.origin import current_user

WITHIN = 90.0
BUFFERED = 512 * 1024
PIECES = ["x" * 2000] * 600 + ["y" * 2 * BUFFERED] * 2 + ["z" * 1000] * 100


def draft(kind: str, body: object) -> Draft:
    return Draft(kind=kind, actor="agent", time="2026-01-01T00:00:00.000Z", body=body)


def text_update(text: str) -> Draft:
    body = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return draft(EntryKind.UPDATE, body)


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_a_history_beyond_the_unread_limit_is_sent_as_fast_as_it_is_read(scheme: str, tmp_path: Path) -> None:
    async def main() -> list[int]:
        store = MemoryStore()
        open_session = {"sessionId": "s", "cwd": str(tmp_path), "agent": {"name": "everything", "version": "1"}}
        await store.append("s", [draft(EntryKind.OPENED, open_session), *map(text_update, PIECES)])
        agent = NamedAgent(name="everything", command=sys.executable, args=("-m", "dragoman", "agent", "everything"))
        bounds = HostLimits(max_unread_bytes=BUFFERED)
        async with Host([agent], store=store, session_roles=MemorySessionRoles(current_user()), limits=bounds) as host:
            async with open_listener(Endpoint(host.serve_client, limits=ServerLimits(buffered=BUFFERED))) as served:
                url = served.url.replace("http", scheme, 1)
                async with asyncio.timeout(WITHIN), connect(url, reconnect_timeout=0.0) as client:
                    session = await client.load_session("s", str(tmp_path))
                    return [len(update.content.text) for update in session.updates_outside_turns]

    assert asyncio.run(main()) == [len(piece) for piece in PIECES]
