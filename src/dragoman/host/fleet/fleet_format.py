"""The format in which the nodes of a fleet write entries: a record in the engine, changed by `fleet finish-upgrade`."""

from __future__ import annotations

import msgspec

from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.store.fleet import Engine, Records
from dragoman.store.formats import FIRST_FORMAT, newest_format, unreadable_fault

_KIND, _KEY = "fleet", "format"


class FleetFormat(msgspec.Struct, frozen=True):
    """What nodes write, and what a node has to read to join: more than what is written while an update is finished."""

    write: int = FIRST_FORMAT
    read: int = FIRST_FORMAT


async def read_fleet_format(records: Records) -> tuple[FleetFormat, int]:
    """Return the format of a fleet, and the version of its record. Before the first finished update it is the first."""
    record = await records.get(_KIND, _KEY)
    if record is None:
        return FleetFormat(), 0
    return msgspec.json.decode(record.value, type=FleetFormat), record.version


async def use_fleet_format(engine: Engine) -> None:
    """Let this process write what the fleet writes; raise StoreFault("newer") if it could not read that."""
    found, _ = await read_fleet_format(engine.records)
    if max(found.write, found.read) > newest_format():
        raise unreadable_fault(max(found.write, found.read))
    engine.use_format(found.write)


async def finish_upgrade(engine: Engine) -> tuple[int, int]:
    """Let all nodes write the newest format that every one of them reads. Return the format before and after.

    From then on a node of the old version cannot join any more.
    """
    alive = [status.info for status in await engine.nodes.list_nodes() if status.is_alive]
    versions = {info.version for info in alive}
    if len(versions) > 1:
        text = f"nodes still run {', '.join(sorted(versions))}; update all of them first"
        raise ProtocolError(Kind.INVALID_STATE, text)
    found, version = await read_fleet_format(engine.records)
    target = await _common_format(engine)
    if target <= found.write:
        return found.write, found.write
    # A node joins, and then reads the record. So from here on it either sees that it may not join, or it is counted.
    version = await _put(engine, FleetFormat(found.write, target), version)
    if await _common_format(engine) < target:
        await _put(engine, found, version)
        text = "a node of an older version has just joined; update it first, then finish the update again"
        raise ProtocolError(Kind.INVALID_STATE, text)
    await _put(engine, FleetFormat(target, target), version)
    await engine.signals.send("format", {"write": target})
    return found.write, target


async def _common_format(engine: Engine) -> int:
    """Return the newest format that every living node reads."""
    alive = [status.info for status in await engine.nodes.list_nodes() if status.is_alive]
    readable = [max(info.state.get("formats") or [FIRST_FORMAT]) for info in alive]
    return min(readable, default=newest_format())


async def _put(engine: Engine, value: FleetFormat, version: int) -> int:
    try:
        return await engine.records.put(_KIND, _KEY, msgspec.json.encode(value), version=version)
    except StoreFault as error:
        if error.why != "fenced":
            raise
        text = "somebody else finishes this update right now; see dragoman fleet status"
        raise ProtocolError(Kind.INVALID_STATE, text) from error
