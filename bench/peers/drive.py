"""The client's half of the measured work: takes a specification and a client of some SDK, gives the figures.

Every work runs on a warm connection: a few messages first, then `/mark` on both sides, the work, then the
agent's `/report`. Times are the client's, except latencies of agent -> client requests, which the agent sees.
"""

import asyncio
import json
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol, TypeVar

from bench.peers.meter import Meter
from bench.peers.texts import CHUNK_BYTES, Reader, is_document

S = TypeVar("S")
Take = Callable[[str], None]
Figures = dict[str, float]

MIB = 1024 * 1024
WARM_CHUNKS = 500
WARM_REQUESTS = 200


class Client(Protocol[S]):
    """What a client must be able to do: one method for each thing an editor does."""

    async def open(self) -> S:
        """Make a new session."""

    async def prompt(self, session: S, text: str, take: Take) -> str:
        """Run one turn, each text chunk given to `take`; the stop reason once all of them have been."""


async def drive(specification: dict[str, Any], client: Client[S]) -> Figures:
    """Do the work that the specification names and measure it."""
    works = {"stream": _stream, "files": _files, "sessions": _sessions, "document": _document}
    return await works[specification["work"]](specification, client)


async def _ended(client: Client[S], session: S, text: str, take: Take) -> None:
    reason = await client.prompt(session, text, take)
    if reason != "end_turn":
        raise ValueError(f"{text[:40]!r} stopped with {reason!r}")


async def _streamed(client: Client[S], session: S, count: int) -> None:
    reader = Reader()
    await _ended(client, session, f"/stream {count} {CHUNK_BYTES}", reader.take)
    reader.expect(count)


async def _report(client: Client[S], session: S) -> Figures:
    texts: list[str] = []
    await _ended(client, session, "/report", texts.append)
    figures: Figures = json.loads("".join(texts))
    return figures


async def _marked(client: Client[S], session: S) -> Meter:
    await _ended(client, session, "/mark", lambda text: None)
    return Meter()


async def _stream(specification: dict[str, Any], client: Client[S]) -> Figures:
    count = int(specification["count"])
    # An agent that is not ours to write (`dragoman agent everything`) streams but does not report.
    metered = bool(specification.get("metered", True))
    session = await client.open()
    await _streamed(client, session, WARM_CHUNKS)
    meter = await _marked(client, session) if metered else Meter()
    started = perf_counter()
    await _streamed(client, session, count)
    elapsed = perf_counter() - started
    ours = meter.read()
    figures = {
        "messages_per_second": count / elapsed,
        "client_cpu_us": ours["cpu"] / count * 1e6,
        "client_peak_mb": ours["peak"] / MIB,
    }
    if metered:
        theirs = await _report(client, session)
        figures["agent_cpu_us"] = theirs["cpu"] / count * 1e6
        figures["agent_peak_mb"] = theirs["peak"] / MIB
    return figures


async def _files(specification: dict[str, Any], client: Client[S]) -> Figures:
    count, inflight = int(specification["count"]), int(specification["inflight"])
    path = str(specification.get("path", ""))
    session = await client.open()
    await _ended(client, session, f"/files {WARM_REQUESTS} {inflight} {path}", lambda text: None)
    await _marked(client, session)
    await _ended(client, session, f"/files {count} {inflight} {path}", lambda text: None)
    report = await _report(client, session)
    return {"p50_us": report["p50"] * 1e6, "requests_per_second": report["requests_per_second"]}


async def _sessions(specification: dict[str, Any], client: Client[S]) -> Figures:
    count, updates = int(specification["count"]), int(specification["updates"])
    await _streamed(client, await client.open(), WARM_CHUNKS)

    async def one() -> None:
        await _streamed(client, await client.open(), updates)

    started = perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    return {"time_ms": (perf_counter() - started) * 1e3}


async def _document(specification: dict[str, Any], client: Client[S]) -> Figures:
    size = int(specification["size"])
    texts: list[str] = []
    session = await client.open()
    meter = await _marked(client, session)
    started = perf_counter()
    await _ended(client, session, f"/document {size}", texts.append)
    elapsed = perf_counter() - started
    ours = meter.read()
    if len(texts) != 1 or not is_document(texts[0], size):
        raise ValueError(f"the document arrived changed, as texts of {[len(text) for text in texts]} characters")
    theirs = await _report(client, session)
    return {
        "time_ms": elapsed * 1e3,
        "client_growth": ours["growth"] / size,
        "agent_growth": theirs["growth"] / size,
    }
