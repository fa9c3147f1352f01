"""Who claimed and wrote what, as the engine itself stored it: a trigger in PostgreSQL, a second stream in NATS.

It does not ask the product, so that the checker notices an engine, or a store on it, that fences wrongly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg
import msgspec
import nats
from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig, StreamSource

from dragoman.store.nats.messages import MessageHead, token
from tests.host.fleet.run.history import ClaimRecord
from tests.store.nats.servers import Servers

# How long the engine may take to answer after the last fault, and the second stream to have everything. Seconds.
RECORD_TIMEOUT = 60.0

STREAM, BATCH = "RUN-RECORD", 500

_TRIGGER = """
CREATE SCHEMA run_record;
CREATE TABLE run_record.claims (at bigserial, number bigint, epoch bigint, node text, entries bigint);
CREATE FUNCTION run_record.note() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO run_record.claims (number, epoch, node, entries) VALUES (NEW.number, NEW.epoch, NEW.node, NEW.entries);
    RETURN NULL;
  END
$$;
CREATE TRIGGER note AFTER UPDATE OF epoch ON fleet_run.progress FOR EACH ROW WHEN (NEW.epoch <> OLD.epoch)
  EXECUTE FUNCTION run_record.note();
"""

_CLAIMS = "SELECT id, epoch, node, entries FROM run_record.claims JOIN fleet_run.sessions USING (number) ORDER BY at"

# Pages keep the epochs of their blocks.
_EPOCHS = """
SELECT id, first, count, epoch FROM (SELECT * FROM fleet_run.blocks UNION ALL SELECT * FROM fleet_run.pages) AS blocks
JOIN fleet_run.sessions ON sessions.number = session
"""


class EngineRecord(msgspec.Struct):
    """The claims of each session in their order, and the epoch of each entry by its number, as far as known."""

    claims: dict[str, list[ClaimRecord]] = {}
    epochs: dict[str, dict[int, int]] = {}

    def add_block(self, session: str, first: int, count: int, epoch: int) -> None:
        """Note the epoch of some entries."""
        self.epochs.setdefault(session, {}).update(dict.fromkeys(range(first, first + count), epoch))


async def begin_postgres(url: str) -> None:
    """Let the database write down every claim from now on."""
    connection = await asyncpg.connect(url.partition("&schema=")[0])
    try:
        await connection.execute(_TRIGGER)
    finally:
        await connection.close()


async def read_postgres(url: str, sessions: Sequence[str]) -> EngineRecord:
    """Return what the database wrote down."""
    record = EngineRecord()
    connection = await asyncpg.connect(url.partition("&schema=")[0], timeout=RECORD_TIMEOUT)
    try:
        for session, epoch, node, entries in await connection.fetch(_CLAIMS):
            record.claims.setdefault(session, []).append(ClaimRecord(epoch, node, entries))
        for session, first, count, epoch in await connection.fetch(_EPOCHS):
            record.add_block(session, first, count, epoch)
    finally:
        await connection.close()
    return record


async def begin_nats(servers: Servers) -> None:
    """Let the servers copy every message of a log to a stream from which nothing is removed."""
    client = await _connect(servers)
    try:
        # Logs of a run are in one stream. What the second one misses is not checked.
        source = StreamSource(name="DGM-LOG-00", filter_subject="dgm.log.>")
        config = StreamConfig(name=STREAM, sources=[source], storage=StorageType.FILE, num_replicas=3)
        await client.jetstream(timeout=RECORD_TIMEOUT).add_stream(config)
    finally:
        await client.close()


async def read_nats(servers: Servers, sessions: Sequence[str]) -> EngineRecord:
    """Return what the servers copied."""
    record, names = EngineRecord(), {token(session): session for session in sessions}
    client = await _connect(servers)
    try:
        stream = client.jetstream(timeout=RECORD_TIMEOUT)
        await _wait_copied(stream)
        reader = await stream.pull_subscribe("dgm.log.>", stream=STREAM)
        left = (await stream.stream_info(STREAM)).state.messages
        while left > 0:
            for message in await reader.fetch(min(BATCH, left), timeout=RECORD_TIMEOUT):
                left -= 1
                session = names.get(message.subject.rpartition(".")[2])
                if session is not None:
                    _add_message(record, session, message.data)
    finally:
        await client.close()
    return record


def _add_message(record: EngineRecord, session: str, data: bytes) -> None:
    head = msgspec.json.decode(data.partition(b"\n")[0], type=MessageHead)
    claims = record.claims.setdefault(session, [])
    # Without a node it is a release, whose claim the copy may have missed.
    if head.epoch > (claims[-1].epoch if claims else 0) and not head.count and head.node:
        claims.append(ClaimRecord(head.epoch, head.node, head.entries))
    if head.count:
        record.add_block(session, head.first, head.count, head.epoch)


async def _wait_copied(stream: nats.js.JetStreamContext) -> None:
    deadline = asyncio.get_running_loop().time() + RECORD_TIMEOUT
    while asyncio.get_running_loop().time() < deadline:
        sources = (await stream.stream_info(STREAM)).sources or []
        if all(not source.lag for source in sources):
            return
        await asyncio.sleep(0.5)


async def _connect(servers: Servers) -> Client:
    addresses = [f"nats://{each}:{port}" for each, port in zip(servers.addresses, servers.ports, strict=True)]
    return await nats.connect(servers=addresses, connect_timeout=10)
