"""The contract check for engines that several nodes use: claims, leases, signals and records as two nodes see them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from dragoman.errors import StoreFault
from dragoman.store.claims import Fenced
from dragoman.store.contract import Claim, Draft
from dragoman.store.fleet import Engine, NodeInfo
from dragoman.testing.contracts import STEP_TIMEOUT, bounded

# Makes two engines on the same data, as two nodes have them.
MakeEngines = Callable[[], Awaitable[tuple[Engine, Engine]]]

# How often two nodes claim one log at the same moment.
ROUNDS = 25

# How long to wait for a signal before it is sent again. Seconds.
SIGNAL_INTERVAL = 0.5

# A lease that ends while one waits. Seconds; NATS keeps whole ones.
SHORT_LEASE = 1.0


async def check_fleet(make: MakeEngines, *, rounds: int = ROUNDS) -> None:
    """Check that two nodes never write one log, that leases end, and that records change only as expected."""

    async def check_races(one: Engine, other: Engine) -> None:
        await _check_races(one, other, rounds)

    for check in (_check_fence, check_races, _check_sight, _check_nodes, _check_signals, _check_records):
        async with bounded(f"the check of {check.__name__.removeprefix('_').removeprefix('check_')}"):
            one, other = await make()
        try:
            await check(one, other)
        finally:
            await one.close()
            await other.close()


async def _check_fence(one: Engine, other: Engine) -> None:
    """The former owner keeps appending while another node claims: what was acknowledged is before the claim."""
    claim = await one.store.claim("s", "a", epoch=0)
    stored: list[int] = []
    is_writing = asyncio.Event()

    async def write() -> Fenced:
        while True:
            try:
                stored.extend(entry.seq for entry in await one.store.append("s", [_draft("a")], claim=claim))
            except Fenced as fenced:
                return fenced
            if len(stored) >= 5:
                is_writing.set()
            await asyncio.sleep(0)  # a store in memory never waits

    writing = asyncio.ensure_future(write())
    writing.add_done_callback(lambda _: is_writing.set())
    try:
        async with bounded("five appends"):
            await is_writing.wait()
        assert len(stored) >= 5, f"the owner cannot append: {await writing!r}"
        taken = await other.store.claim("s", "b", epoch=(await other.store.owner("s")).epoch)
        [entry] = await other.store.append("s", [_draft("b")], claim=taken)
        async with bounded("the end of the former owner's appends"):
            fenced = await writing
    finally:  # what failed above is what is reported, not that the store is closed
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    assert fenced.owner.node == "b", f"the former owner was told that {fenced.owner.node!r} owns the log"
    assert entry.seq == taken.seq + 1, "the claim did not say where the log ends"
    assert stored == list(range(1, taken.seq + 1)), "what the former owner was told differs from what is stored"
    actors = [each.actor for each in await other.store.read("s")]
    assert actors == ["a"] * taken.seq + ["b"], "an append of the former owner is after the claim"


async def _check_races(one: Engine, other: Engine, rounds: int) -> None:
    for number in range(rounds):
        session = f"race{number}"
        await one.store.append(session, [_draft("x")])
        results = await asyncio.gather(
            one.store.claim(session, "a", epoch=0), other.store.claim(session, "b", epoch=0), return_exceptions=True
        )
        won = [result for result in results if isinstance(result, Claim)]
        lost = [result for result in results if isinstance(result, Fenced)]
        assert len(won) == len(lost) == 1, f"two nodes claimed one log, and the results are {results!r}"
        assert lost[0].owner.node == won[0].node, "the node that lost was not told who owns the log"


async def _check_sight(one: Engine, other: Engine) -> None:
    await one.store.append("s", [_draft("a"), _draft("a")])
    assert len(await other.store.read("s")) == 2, "a node does not see what another stored"
    assert [each.session_id for each in await other.store.sessions()] == ["s"], "a node does not list it"
    await other.store.rename("s", "roof")
    assert (await one.store.find("roof")).session_id == "s", "a node does not find a name that another gave"
    await other.store.append("s", [_draft("b")])
    assert [entry.seq for entry in await one.store.append("s", [_draft("a")])] == [4], "two nodes used one number"
    await one.store.save_state("s", 2, b"state")
    saved = await other.store.saved_state("s")
    assert saved is not None, "a node does not see a state that another kept"
    assert await other.store.delete("s"), "a node cannot delete what another stored"
    assert await one.store.sessions() == [], "a node still lists what another deleted"


async def _check_nodes(one: Engine, other: Engine) -> None:
    info = NodeInfo(node="n1", url="ws://n1", labels=("shared:src",), version="1", state={"load": 1})
    lease = await one.nodes.join(info, seconds=STEP_TIMEOUT * 10)
    seen = await other.nodes.node("n1")
    assert seen is not None, "a node that joined is not seen"
    assert (seen.info, seen.is_alive) == (info, True), "a node that joined is not seen as it is"
    assert await _why(other.nodes.join(info, seconds=1)) == "taken", "two nodes that are alive have one name"
    busy = NodeInfo(node="n1", state={"load": 2})
    await one.nodes.renew(lease, busy)
    assert [each.info for each in await other.nodes.list_nodes()] == [busy], "a renewal did not describe the node anew"
    await one.nodes.leave(lease)
    seen = await other.nodes.node("n1")
    assert seen is None or not seen.is_alive, "a node that left is alive"
    short = await one.nodes.join(info, seconds=SHORT_LEASE)
    deadline = time.monotonic() + STEP_TIMEOUT
    while (seen := await other.nodes.node("n1")) is not None and seen.is_alive:
        assert time.monotonic() < deadline, "a lease that is not renewed does not end"
        await asyncio.sleep(SHORT_LEASE / 10)
    await other.nodes.join(info, seconds=STEP_TIMEOUT)
    assert await _why(one.nodes.renew(short, info)) == "fenced", "a node renewed a lease that is over and taken"
    await one.nodes.leave(short)
    seen = await other.nodes.node("n1")
    assert seen is not None, "a node ended the lease of another"
    assert seen.is_alive, "a node ended the lease of another"


async def _check_signals(one: Engine, other: Engine) -> None:
    heard: list[tuple[str, dict[str, Any]]] = []
    arrived = asyncio.Event()

    def note(topic: str, payload: dict[str, Any]) -> None:
        heard.append((topic, payload))
        arrived.set()

    stop = other.signals.listen(note)
    async with bounded("a signal from one node to the other, also when it is sent again,"):
        while not arrived.is_set():  # one may be lost, such as the first after somebody listens
            await one.signals.send("claimed", {"session": "s", "node": "ä"})
            with suppress(TimeoutError):
                await asyncio.wait_for(arrived.wait(), SIGNAL_INTERVAL)
    assert heard[0] == ("claimed", {"session": "s", "node": "ä"}), "a signal arrived changed"
    stop()
    try:
        await one.signals.send("claimed", {"text": "x" * 8000})
    except ValueError:
        return
    raise AssertionError("a signal that is too long was sent")


async def _check_records(one: Engine, other: Engine) -> None:
    assert await one.records.get("anchor", "n1") is None, "a record exists before it was written"
    first = await one.records.put("anchor", "n1", b"\x00one", version=0)
    assert await _why(other.records.put("anchor", "n1", b"x", version=0)) == "fenced", "a record was written twice"
    second = await other.records.put("anchor", "n1", b"two", version=first)
    assert await _why(one.records.put("anchor", "n1", b"x", version=first)) == "fenced", "a change was overwritten"
    found = await one.records.get("anchor", "n1")
    assert found is not None, "a record is lost"
    assert (found.value, found.version) == (b"two", second), "a record is not what was written last"
    await one.records.put("anchor", "n2", b"three")
    await one.records.put("other", "n3", b"four")
    listed = [(record.key, record.value) for record in await other.records.list_records("anchor")]
    assert listed == [("n1", b"two"), ("n2", b"three")], "the records of a kind are not listed by key"
    assert [record.key for record in await other.records.list_records("anchor", "n2")] == ["n2"], "a prefix is ignored"
    await other.records.delete("anchor", "n1")
    assert await one.records.get("anchor", "n1") is None, "a deleted record is still there"
    assert await one.records.put("anchor", "n1", b"again", version=0), "a deleted record cannot be written again"


def _draft(actor: str) -> Draft:
    return Draft(kind="update", actor=actor, time="2026-01-01T00:00:00Z", body={}, turn="t1")


async def _why(work: Awaitable[object]) -> str:
    try:
        await work
    except StoreFault as fault:
        return fault.why
    raise AssertionError("the call should have failed, but succeeded")
