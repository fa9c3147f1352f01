"""A process that writes logs, and says on its output what was acknowledged to it.

    python tests/store/writer_process.py FILE NAME SESSIONS ROUNDS

One line for each acknowledged entry: session, number, text. Used by the tests with two processes.
"""

from __future__ import annotations

import asyncio
import os
import sys

from dragoman.store.contract import Draft
from dragoman.store.sqlite import SqliteStore


async def write(path: str, name: str, sessions: int, rounds: int) -> None:
    """Append to each session, in batches of different sizes, and acknowledge."""
    store = await SqliteStore.open(path)

    async def one(session: str, offset: int) -> None:
        for turn in range(rounds):
            texts = [f"{name}.{turn}.{place}" for place in range(1 + (turn + offset) % 5)]
            drafts = [Draft(kind="update", actor="agent", time="2026-01-01T00:00:00Z", body=text) for text in texts]
            entries = await store.append(session, drafts)
            lines = "".join(f"{session} {entry.seq} {entry.body}\n" for entry in entries)
            os.write(1, lines.encode())

    await asyncio.gather(*(one(f"s{number}", number) for number in range(sessions)))
    await store.close()


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
