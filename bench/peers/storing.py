"""What keeping sessions costs, next to a plain loop of inserts into SQLite with the same durability.

    python -m bench.peers.storing '{"work": "appends", "count": 40000, "cwd": "/tmp/x"}'

Prints the figures of one of the works below as JSON. Both sides take turns, block by block, and medians are compared.
"""

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import msgspec

from dragoman import Agent, Turn
from dragoman.store.contract import Draft
from dragoman.store.sqlite import SqliteStore
from dragoman.testing import connect_in_memory

BATCH = 256
MANY = 64

# Measurements of each log that is held against another.
BLOCKS = 100
TIME = "2026-01-01T00:00:00.000Z"


def draft(number: int) -> Draft:
    """One chunk of a stream."""
    text = f"chunk {number:05} of an answer that goes on"
    body = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return Draft(kind="update", actor="agent", time=TIME, body=body, turn="t1")


class Plain:
    """The loop anybody would write: one table, one insert for each row, a commit for each batch."""

    def __init__(self, folder: str) -> None:
        self._file = sqlite3.connect(os.path.join(folder, "plain.db"), isolation_level=None)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute(
            "CREATE TABLE log (session TEXT, seq INTEGER, entry TEXT, PRIMARY KEY (session, seq)) WITHOUT ROWID"
        )
        self._seq = 0

    def block(self, rows: int, sessions: int) -> None:
        """One commit."""
        self._file.execute("BEGIN IMMEDIATE")
        for number in range(rows):
            self._seq += 1
            one = draft(number)
            entry = msgspec.json.encode(one).decode()
            self._file.execute("INSERT INTO log VALUES (?, ?, ?)", (f"s{number % sessions}", self._seq, entry))
        self._file.execute("COMMIT")


async def appends(count: int, folder: str) -> dict[str, float]:
    """Rows per second of one and of many sessions that write at once, in batches and one by one."""
    store = await SqliteStore.open(os.path.join(folder, "ours.db"))
    plain = Plain(folder)

    async def one() -> None:
        await store.append("one", [draft(number) for number in range(BATCH)])

    async def many(each: int) -> None:
        drafts = [draft(number) for number in range(each)]
        await asyncio.gather(*(store.append(f"s{number}", drafts) for number in range(MANY)))

    blocks = max(count // BATCH, 4)
    figures: dict[str, float] = {}
    for name, rows, sessions, ours in (
        ("one", BATCH, 1, one),
        ("many", BATCH, MANY, lambda: many(BATCH // MANY)),
        ("many_single", MANY, MANY, lambda: many(1)),
    ):
        mine, theirs = await _turns(blocks, ours, partial(plain.block, rows, sessions))
        figures |= {f"{name}_per_second": rows / mine, f"{name}_ratio": theirs / mine}
    await store.close()
    return figures


async def _turns(blocks: int, ours: Callable[[], Awaitable[None]], theirs: Callable[[], None]) -> tuple[float, float]:
    """The median time of a block of each, taking turns."""
    mine, plain = [], []
    await ours()
    for _ in range(blocks):
        start = perf_counter()
        await ours()
        middle = perf_counter()
        theirs()
        mine.append(middle - start)
        plain.append(perf_counter() - middle)
    return median(mine), median(plain)


async def growth(count: int, folder: str) -> dict[str, float]:
    """What an entry costs in a log of some 1,000 and in one of `count` entries, to append and to read; in turns."""
    small = await SqliteStore.open(os.path.join(folder, "small.db"))
    large = await SqliteStore.open(os.path.join(folder, "large.db"))
    begin = [draft(number) for number in range(1000)]
    for _ in range(count // len(begin)):
        await large.append("one", begin)
    costs: dict[SqliteStore, list[tuple[float, float]]] = {small: [], large: []}
    for block in range(BLOCKS):
        session = f"s{block // 4}"  # a new one now and then, so that it stays small
        if block % 4 == 0:
            # Both files get the same to write, or one of them would have to tidy up more often. The last log of a file
            # grows at the end of everything, which is cheaper; so neither of those that are measured is the last.
            for store in (small, large):
                await store.append(session, begin)
                await store.append(f"after {session}", begin)
        pair = [(small, session), (large, "one")]
        for store, name in pair if block % 2 else pair[::-1]:
            costs[store].append(await _cost(store, name))
    await small.close()
    await large.close()
    # Each block is compared with the next one, because the load of the machine changes from second to second.
    append, read = (
        median(late[place] / early[place] for early, late in zip(costs[small], costs[large], strict=True))
        for place in (0, 1)
    )
    written, shown = (median(cost[place] for cost in costs[large]) for place in (0, 1))
    return {"append_us": written * 1e6, "append_growth": append, "read_us": shown * 1e6, "read_growth": read}


async def _cost(store: SqliteStore, session: str) -> tuple[float, float]:
    drafts = [draft(number) for number in range(BATCH)]
    start = perf_counter()
    entries = await store.append(session, drafts)
    middle = perf_counter()
    await store.lines(session, after=entries[0].seq - 1, limit=BATCH)
    return (middle - start) / BATCH, (perf_counter() - middle) / BATCH


async def load(count: int, folder: str) -> dict[str, float]:
    """session/load of a log of so many entries, by an agent that was just started."""
    path = os.path.join(folder, "ours.db")
    store = await SqliteStore.open(path)
    agent = _agent(store, count)
    async with connect_in_memory(agent, permission="allow") as client:
        session = await client.open_session(folder)
        await session.ask("go")
    entries = (await store.find(session.id)).entries
    await store.close()
    store = await SqliteStore.open(path)
    async with connect_in_memory(_agent(store, count), permission="allow") as client:
        start = perf_counter()
        loaded = await client.load_session(session.id, folder)
        taken = perf_counter() - start
    await store.close()
    return {
        "time_ms": taken * 1e3,
        "entry_us": taken / entries * 1e6,
        "updates": float(len(loaded.updates_outside_turns)),
    }


def _agent(store: SqliteStore, count: int) -> Agent:
    agent = Agent("bench", store=store)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        for number in range(count // 4):
            await turn.say(f"chunk {number:05} of an answer ")
            await turn.say("that goes on")
            async with turn.tool(f"Read file {number}", kind="read"):
                pass

    return agent


WORKS: dict[str, Callable[[int, str], Awaitable[dict[str, float]]]] = {
    "appends": appends,
    "growth": growth,
    "load": load,
}


def main(work: dict[str, Any]) -> None:
    """Do the work and print its figures."""

    async def done() -> dict[str, float]:
        return await WORKS[work["work"]](work["count"], work["cwd"])

    print(json.dumps(asyncio.run(done())))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
