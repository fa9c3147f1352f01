"""Writes a session of so many messages into a store: python long_session.py FILE SESSION COUNT."""

import asyncio
import sys

from dragoman.store.contract import Draft
from dragoman.store.sqlite.store import SqliteStore

WHEN = "2026-01-01T00:00:00.000Z"
KINDS = ("user_message_chunk", "agent_message_chunk")


def message(number: int) -> Draft:
    """One message, by turns of the user and of the agent."""
    text = f"Message {number}: **words** and `code`. " * (3 + number % 8)
    update = {"sessionUpdate": KINDS[number % 2], "content": {"type": "text", "text": text}}
    return Draft(kind="update", actor="agent", time=WHEN, turn=str(number), body=update)


async def main(path: str, session: str, count: int) -> None:
    """Write it."""
    store = await SqliteStore.open(path)
    opened = {"cwd": "/", "agent": {"name": "writer"}}
    await store.append(session, [Draft(kind="opened", actor="writer", time=WHEN, body=opened)])
    for start in range(0, count, 1000):
        await store.append(session, [message(number) for number in range(start, min(count, start + 1000))])
    await store.close()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
