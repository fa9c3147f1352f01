"""What an engine of a fleet costs, next to the SQLite store with the same durability, in one run and in turns.

    python -m bench.peers.engines '{"work": "appends", "engine": "postgres", "count": 2000, "cwd": "/tmp/x"}'

Prints the figures of one of the works below as JSON. The engine has servers of its own on this machine, each syncing
every commit: PostgreSQL of the system or of a wheel, the same with a synchronous standby, or three of nats-server.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from bench.peers.storing import draft
from dragoman.store.contract import Selection, Store
from dragoman.store.fleet import Engine, EngineOptions
from dragoman.store.nats import NatsStore
from dragoman.store.sqlite import SqliteStore
from dragoman.store.urls import open_engine
from tests.store.nats.servers import Servers
from tests.store.nats.test_contract import wait_ready
from tests.store.postgres import server

# Sessions that append at once, and the entries of each append.
CROWDS = ((1, 1), (64, 1), (256, 1), (64, 8))

# Sessions of the user whose list is measured, and how often it is asked for.
OWN = 100
LISTS = 20

EXPECTATION = "Nats-Expected-Last-Subject-Sequence"

# Rows of one statement that fills the index.
FILL = 10_000


@asynccontextmanager
async def open_at(url: str) -> AsyncIterator[Engine]:
    """Open an engine."""
    engine = await open_engine(url, EngineOptions(owner="owner"))
    try:
        yield engine
    finally:
        await engine.close()


@contextmanager
def _nats_servers() -> Iterator[str]:
    """Run three servers; yield their address."""
    servers = Servers(3)
    try:
        asyncio.run(wait_ready(servers))
        yield servers.url()
    finally:
        servers.end()


@contextmanager
def _postgres_servers(*, has_standby: bool) -> Iterator[str]:
    """Run a server, or one and its standby; yield its address."""
    settings = {"shared_buffers": "256MB"}
    with ExitStack() as stack:
        primary = _postgres_folder(stack)
        server.init(primary)
        waits = {"synchronous_standby_names": "second"} if has_standby else {}
        _start_postgres(stack, primary, settings | waits)
        if has_standby:
            standby = _postgres_folder(stack)
            server.copy(primary, standby, "second")
            _start_postgres(stack, standby, settings)
        yield server.Postgres(primary).url("bench")


def _postgres_folder(stack: ExitStack) -> Path:
    folder = server.create_folder()
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _start_postgres(stack: ExitStack, folder: Path, settings: dict[str, str]) -> None:
    process = server.start(folder, **settings)
    stack.callback(process.wait, 30)
    stack.callback(process.send_signal, signal.SIGQUIT)


async def appends(engine: Engine, plain: Store, count: int) -> dict[str, float]:
    """Entries per second of sessions that append at once, and how many times as many as SQLite."""
    figures: dict[str, float] = {}
    for crowd, size in CROWDS:
        times: dict[Store, list[float]] = {engine.store: [], plain: []}
        for turn in range(max(count // crowd, 10)):
            stores = list(times)
            for store in stores if turn % 2 else stores[::-1]:
                start = perf_counter()
                await asyncio.gather(*(store.append(f"s{number}", [draft(turn)] * size) for number in range(crowd)))
                times[store].append(perf_counter() - start)
        ours, theirs = median(times[engine.store]), median(times[plain])
        name = f"of_{crowd}" if size == 1 else f"{size}_of_{crowd}"
        figures |= {f"{name}_per_second": crowd * size / ours, f"{name}_ratio": theirs / ours}
    return figures


async def load(engine: Engine, plain: Store, count: int) -> dict[str, float]:
    """Processor time of reading a log of so many entries that were appended turn by turn."""
    times: dict[Store, list[float]] = {engine.store: [], plain: []}
    for store in times:
        for start in range(0, count, 100):
            await store.append("one", [draft(number) for number in range(start, start + 100)])
            if start % 1000 == 900:
                end = draft(0)
                await store.append("one", [type(end)(kind="turn_ended", actor="agent", time=end.time, body={})])
    for _ in range(10):
        for store, taken in times.items():
            before = process_time()
            lines = await store.lines("one")
            taken.append(process_time() - before)
            assert len(lines) >= count
    ours, theirs = median(times[engine.store]), median(times[plain])
    return {"load_cpu_ms": ours * 1e3, "load_cpu_ratio": ours / theirs}


async def publishing(engine: Engine, plain: Store, count: int) -> dict[str, float]:
    """Processor time of a message with an expectation that is stored, against `js.publish` of nats-py."""
    assert isinstance(engine.store, NatsStore)
    client = engine.store._client
    stream, data = client._nc.jetstream(), b"x" * 302

    async def theirs(subject: str, expected: int) -> int:
        return int((await stream.publish(subject, data, headers={EXPECTATION: str(expected)})).seq)

    async def ours(subject: str, expected: int) -> int:
        return await client.publish(subject, data, expected=expected)

    taken: dict[Any, list[float]] = {theirs: [], ours: []}
    last = {(each, number): 0 for each in taken for number in range(256)}
    for _ in range(max(count // 256, 10)):
        for each, times in taken.items():
            begun = process_time()
            sent = [each(f"dgm.log.0.{each.__name__}{number}", last[each, number]) for number in range(256)]
            for number, seq in enumerate(await asyncio.gather(*sent)):
                last[each, number] = seq
            times.append((process_time() - begun) / 256)
    mine, other = median(taken[ours]), median(taken[theirs])
    return {"publish_us": mine * 1e6, "publish_ratio": mine / other}


async def listing(engine: Engine, plain: Store, count: int) -> dict[str, float]:
    """The time of a list of a user's sessions, of a name and of a prefix, among 1,000 and among so many sessions."""
    from dragoman.store.postgres.engine import PostgresEngine, open_postgres

    assert isinstance(engine, PostgresEngine), "the index is filled with statements of PostgreSQL"
    few = await open_postgres(engine.database.where.replace("schema=bench", "schema=few"), EngineOptions(owner="owner"))
    try:
        works = {"many": await _list_works(engine, count), "few": await _list_works(few, 1000)}
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(LISTS):  # in turns: what else the machine does hits both
            for each, named in works.items():
                for name, work in named.items():
                    began = perf_counter()
                    await work()
                    times.setdefault((each, name), []).append(perf_counter() - began)
        names = list(works["many"])
        return {f"{name}_ms": median(times["many", name]) * 1e3 for name in names} | {
            f"{name}_growth": median(times["many", name]) / median(times["few", name]) for name in names
        }
    finally:
        await few.close()


async def fill_index(engine: Any, count: int) -> None:
    """Make so many sessions, of which one user has a hundred."""
    known = (await engine.database.fetch("SELECT count(*) FROM sessions"))[0][0]
    for start in range(known, count, FILL):
        end = min(start + FILL, count)
        await engine.database.execute(
            "WITH made AS (INSERT INTO sessions (id, cwd, created_at, title) "
            "SELECT md5(n::text), '/w', 't', 'title ' || n FROM generate_series($1::bigint, $2) AS n RETURNING number) "
            "INSERT INTO progress (number, entries, size, updated_at) SELECT number, 1, 100, "
            "to_char(timestamp '2026-01-01' + number * interval '1 second', 'YYYY-MM-DD\"T\"HH24:MI:SS') FROM made",
            start,
            end - 1,
        )
        await engine.database.execute(
            "INSERT INTO members SELECT md5(n::text), CASE WHEN n < $3 THEN 'ann' ELSE 'user' || n % 9999 END, 'admin' "
            "FROM generate_series($1::bigint, $2) AS n",
            start,
            end - 1,
            OWN,
        )
    await engine.database.execute("ANALYZE")


async def _list_works(engine: Any, count: int) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Make so many sessions; return what is measured among them."""
    await fill_index(engine, count)
    for statement in ("VACUUM ANALYZE", "CHECKPOINT"):  # else the server does it while it is measured
        async with engine.database.connection() as connection:
            await connection.execute(statement, timeout=600)
    id = (await engine.database.fetch("SELECT md5('500')"))[0][0]
    await engine.store.rename(id, "roof")
    return {
        "list": lambda: engine.store.sessions(Selection(of="ann", limit=100)),
        "newest": lambda: engine.store.sessions(Selection(limit=100)),
        "name": lambda: engine.store.find("roof"),
        "prefix": lambda: engine.store.find(id[:10]),
        "wake": lambda: engine.store.owner(id),
    }


# Servers of an engine of its own: a call that runs them and yields their address.
SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "nats": _nats_servers,
    "postgres": partial(_postgres_servers, has_standby=False),
    "standby": partial(_postgres_servers, has_standby=True),
}

WORKS: dict[str, Callable[[Engine, Store, int], Awaitable[dict[str, float]]]] = {
    "appends": appends,
    "load": load,
    "listing": listing,
    "publishing": publishing,
}


def main(work: dict[str, Any]) -> None:
    """Do the work and print its figures."""

    async def done(url: str) -> dict[str, float]:
        plain = await SqliteStore.open(os.path.join(work["cwd"], "plain.db"))
        try:
            async with open_at(url) as engine:
                return await WORKS[work["work"]](engine, plain, work["count"])
        finally:
            await plain.close()

    Path(work["cwd"]).mkdir(parents=True, exist_ok=True)
    with SERVERS[work["engine"]]() as url:
        print(json.dumps(asyncio.run(done(url))))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
