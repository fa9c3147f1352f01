"""Messages that are published: what the store is told when nobody stores them, or nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from dragoman.errors import StoreFault
from dragoman.store.nats import client as client_module
from dragoman.store.nats.client import NatsClient
from tests.store.nats.servers import Servers


@pytest.fixture(scope="module")
def one() -> Iterator[Servers]:
    pytest.importorskip("nats")
    found = Servers(1)
    try:
        yield found
    finally:
        found.end()


async def connected(servers: Servers) -> NatsClient:
    client = NatsClient("test")
    await client.connect([f"nats://127.0.0.1:{port}" for port in servers.ports])
    return client


async def publish_why(client: NatsClient, subject: str, data: bytes = b"x") -> str:
    with pytest.raises(StoreFault) as caught:
        await asyncio.wait_for(client.publish(subject, data), 60)
    return caught.value.why


async def test_a_subject_without_a_stream_stores_nothing_and_says_so(one: Servers) -> None:
    client = await connected(one)
    assert await publish_why(client, "nobody.listens") == "away"
    assert await publish_why(client, "nobody.listens", b"x" * (client.max_data + 1)) == "away"
    await client.close()


async def test_a_message_that_nobody_answers_is_unknown_after_the_timeout_and_at_close(
    one: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = await connected(one)
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    await listener.subscribe("silent.>", heard.put_nowait)
    monkeypatch.setattr(client_module, "REQUEST_TIMEOUT", 0.2)
    client = await connected(one)
    assert await publish_why(client, "silent.a") == "unknown"
    monkeypatch.setattr(client_module, "REQUEST_TIMEOUT", 600)
    patient = await connected(one)
    waiting = [asyncio.ensure_future(publish_why(patient, f"silent.{number}")) for number in range(5)]
    for _ in range(6):
        await asyncio.wait_for(heard.get(), 60)
    await patient.close()
    assert await asyncio.gather(*waiting) == ["unknown"] * 5
    await asyncio.gather(client.close(), listener.close())


async def test_messages_of_one_pass_are_stored_in_their_order_and_each_is_answered(one: Servers) -> None:
    client = await connected(one)
    await client.call("STREAM.CREATE.T", {"name": "T", "subjects": ["t.>"], "num_replicas": 1})
    sequences = await asyncio.gather(*(client.publish("t.x", b"%d" % number) for number in range(300)))
    assert sequences == list(range(1, 301))
    last = await client.last("T", "t.x")
    assert last is not None
    assert (last.seq, last.data) == (300, b"299")
    await client.close()
