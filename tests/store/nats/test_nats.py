"""The NATS store beyond the contract: pages, parts, lost answers, damage, secrets, what is refused at the start."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigFault, Kind, ProtocolError, StoreFault
from dragoman.host.auth.directory import open_directory
from dragoman.host.fleet.operate import fleet_status
from dragoman.store.contract import Draft
from dragoman.store.fleet import Engine, EngineOptions
from dragoman.store.nats import guards
from dragoman.store.nats.client import Conflict, NatsClient
from dragoman.store.nats.engine import open_nats
from dragoman.store.nats.messages import Shards, encode_message, head_subject, token, untoken
from dragoman.store.nats.store import NatsStore
from dragoman.store.session_log import SessionLog
from dragoman.store.urls import open_engine, parse_address
from tests.store.nats.servers import Servers
from tests.store.nats.test_contract import empty, wait_ready


@pytest.fixture(scope="module")
def one() -> Iterator[Servers]:
    pytest.importorskip("nats")
    found = Servers(1)
    try:
        yield found
    finally:
        found.end()


@asynccontextmanager
async def fresh(servers: Servers, **options: Any) -> AsyncIterator[Engine]:
    await empty(servers)
    engine = await open_engine(servers.url(), EngineOptions(trusts_engine=True, **options))
    try:
        yield engine
    finally:
        await engine.close()


def parts_of(engine: Engine) -> tuple[NatsStore, NatsClient]:
    assert isinstance(engine.store, NatsStore)
    return engine.store, engine.store._client


def draft(text: str, kind: str = "update") -> Draft:
    return Draft(kind=kind, actor="agent", time="2026-01-01T00:00:00Z", body={"text": text})


async def count_messages(client: NatsClient, subject: str) -> int:
    return len([message async for message in client.batch("DGM-LOG-00", subject, 1)])


async def test_the_messages_of_a_turn_are_joined_to_a_page_and_the_chain_goes_on(one: Servers) -> None:
    async with fresh(one) as engine, asyncio.timeout(60):
        store, client = parts_of(engine)
        claim = await store.claim("s", "a#1", epoch=0)
        for number in range(12):
            await store.append("s", [draft(f"{number}")], claim=claim)
        await store.append("s", [draft("", "turn_ended")], claim=claim)
        while await count_messages(client, "dgm.log.0.s") > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await count_messages(client, "dgm.page.0.s") == 1
        await store.append("s", [draft("after")], claim=claim)
        entries = await store.read("s")
        assert [entry.seq for entry in entries] == list(range(1, 15))
        assert [entry.seq for entry in await store.read("s", after=12)] == [13, 14]
        assert (await store.owner("s")).seq == 14


async def test_an_append_that_is_longer_than_a_message_is_stored_in_parts_all_or_none(one: Servers) -> None:
    async with fresh(one) as engine:
        store, client = parts_of(engine)
        await store.append("s", [draft("first")])
        await store.append("s", [draft("x" * 1_500_000), draft("y" * 900_000)])
        assert await count_messages(client, "dgm.log.0.s") > 3
        assert [len(entry.body["text"]) for entry in await store.read("s")] == [5, 1_500_000, 900_000]
        # A writer that dies after its first parts leaves nothing: the next one goes on before them.
        end = await store._logs.end("s")
        left = encode_message(type(end.head)(3, "", 3, end.head.size, "t", part=1, parts=3, write="w"), b"zzz")
        await client.publish("dgm.log.0.s", left, expected=end.seq)
        store._logs.forget("s")
        assert [entry.seq for entry in await store.append("s", [draft("next")])] == [4]
        assert [entry.body["text"][:5] for entry in await store.read("s")] == ["first", "xxxxx", "yyyyy", "next"]
        await store._logs.join_tail("s")
        assert len(await store.read("s")) == 4


@pytest.mark.item("FL-06")
@pytest.mark.parametrize("loss", ["in flight", "before", "after"])
async def test_a_writer_that_nobody_overtook_goes_on_and_stores_once(
    one: Servers, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fresh(one) as engine, asyncio.timeout(60):
        store, client = parts_of(engine)
        told: list[int] = []
        log = SessionLog(store, "s", on_entries=lambda _, entries: told.extend(entry.seq for entry in entries))
        log.claim = await store.claim("s", "a#1", epoch=0)
        await log.append_and_wait("update", {"n": 1})
        original, losses = client.publish, [loss, loss]

        async def publish(subject: str, data: bytes, **options: Any) -> int:
            if not subject.startswith("dgm.log") or not losses or b'"count"' not in data:
                return await original(subject, data, **options)
            losses.pop()
            if loss == "in flight":
                raise Conflict  # 10164 although nothing changed
            if loss == "after":
                await original(subject, data, **options)
            raise StoreFault("unknown", "no answer")

        monkeypatch.setattr(client, "publish", publish)
        await log.append_and_wait("update", {"n": 2})
        await log.append_and_wait("update", {"n": 3})
        assert not losses
        assert [entry.body["n"] for entry in await store.read("s")] == [1, 2, 3]
        assert told == [1, 2, 3]


def test_a_stream_that_could_not_be_created_is_tried_again_where_that_can_help() -> None:
    def fault(code: int, err_code: int, description: str) -> tuple[str, str]:
        found = guards.stream_error(
            "nats://one: stream A", {"code": code, "err_code": err_code, "description": description}
        )
        return found.why, found.message

    # A stream of that name was just removed, and a server is not done with it.
    assert fault(500, 10049, "no store") == ("away", "nats://one: stream A: no store")
    assert fault(503, 10008, "no leader")[0] == "away"
    assert fault(400, 10005, "no peers") == (
        "away",
        "nats://one: stream A: no peers; three replicas need three servers",
    )
    assert fault(500, 10074, "alone") == ("unusable", "nats://one: stream A: alone; three replicas need three servers")
    assert fault(400, 10052, "bad name")[0] == "unusable"


async def test_a_store_that_finds_its_stream_being_removed_waits_for_it(
    one: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await empty(one)
    call, refusals = NatsClient.call, [{"error": {"code": 500, "err_code": 10049, "description": "no store"}}] * 2

    async def call_late(self: NatsClient, subject: str, *arguments: Any) -> Any:
        if subject.startswith("STREAM.CREATE") and refusals:
            return refusals.pop()
        return await call(self, subject, *arguments)

    monkeypatch.setattr(NatsClient, "call", call_late)
    engine = await open_engine(one.url(), EngineOptions(trusts_engine=True))
    await engine.close()
    assert refusals == []


@pytest.mark.item("FL-03")
async def test_servers_that_do_not_sync_are_old_or_have_other_streams_are_refused_by_name(
    one: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusal(url: str) -> str:
        with pytest.raises(StoreFault) as caught:
            await open_engine(url, EngineOptions())
        assert caught.value.why == "unusable"
        return caught.value.message

    await empty(one)
    assert "one server is one disk; name three servers" in await refusal(one.url())
    assert "?monitor=http://HOST:8222" in await refusal(one.url().split("?", maxsplit=1)[0])
    lazy = Servers(1, sync="2m")
    try:
        assert "set sync_interval: always" in await refusal(lazy.url())
        engine = await open_engine(lazy.url(), EngineOptions(trusts_engine=True))
        assert any("NOT SAFE" in line for line in engine.guarantees)
        await engine.close()
        client = NatsClient("test")
        await client.connect([f"nats://127.0.0.1:{lazy.ports[0]}"])
        await client.call("STREAM.DELETE.DGM-META")
        await client.call("STREAM.CREATE.DGM-META", {"name": "DGM-META", "subjects": ["other.>"], "storage": "memory"})
        await client.close()
        with pytest.raises(StoreFault, match="not as Dragoman makes it: subjects, storage"):
            await open_engine(lazy.url(), EngineOptions(trusts_engine=True))
    finally:
        lazy.end()
    monkeypatch.setattr(guards, "MIN_VERSION", (99, 0, 0))
    assert "needs 99.0.0 or newer" in await refusal(one.url())


@pytest.mark.item("FL-10", "FL-11")
async def test_a_damaged_replica_is_noticed_and_read_around() -> None:
    three = Servers(3)
    try:
        await wait_ready(three)
        engine = await open_engine(three.url(), EngineOptions())
        for number in range(40):
            await engine.store.append("s", [draft(f"{number:04}" * 50)])
        before = await engine.store.lines("s")
        info = await parts_of(engine)[1].call("STREAM.INFO.DGM-LOG-00")
        leader = int(info["cluster"]["leader"].removeprefix("n"))
        victim = (leader + 1) % 3
        three.stop(victim)
        await asyncio.to_thread(_damage, three.folder / f"data{victim}")
        three.start(victim)
        async with asyncio.timeout(60):
            while not (found := await engine.disagreements()):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            assert "stream DGM-LOG-00" in found[0]
            assert found[0] in (await fleet_status(engine))["problems"]
            for _ in range(6):
                assert await engine.store.lines("s") == before
        assert (await engine.store.verify("s")).is_intact
        await engine.close()
    finally:
        three.end()


@pytest.mark.item("FL-10")
async def test_the_entries_that_the_only_server_lost_are_named_by_number() -> None:
    one = Servers(1)
    try:
        async with fresh(one) as engine, asyncio.timeout(60):
            store, _ = parts_of(engine)
            for number in range(40):
                await store.append("s", [draft(f"{number:04}" * 50)])
            await store.append("s", [draft("", "turn_ended")])
            while (head := await store._index.head("s")) is None or head.witness < 41:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            for number in range(41, 81):
                await store.append("s", [draft(f"{number:04}" * 50)])
            await store._join_tail("s")
            before = await store.lines("s")
            assert len(before) == 81
        one.stop(0, signal.SIGTERM)
        await asyncio.to_thread(_damage, one.folder / "data0")
        one.start(0)
        engine = await open_engine(one.url(), EngineOptions(trusts_engine=True))
        try:
            with pytest.raises(ProtocolError) as caught:
                await engine.store.lines("s")
            assert caught.value.kind == Kind.SESSION_CORRUPTED
            kept = await engine.store.lines("s", intact=True)
            report = await engine.store.verify("s")
            lost = {seq for low, high in report.lost for seq in range(low, high + 1)}
            assert lost, "the damage hit nothing: this test shows nothing"
            assert [line for seq, line in enumerate(before, 1) if seq not in lost] == kept
            assert caught.value.data == {"sessionId": "s", "lost": report.lost}
            with pytest.raises(ProtocolError):
                await engine.store.claim("s", "n", epoch=0)
            await engine.store.repair("s")
            assert len(await engine.store.lines("s")) == 81
            assert (await engine.store.append("s", [draft("on")], claim=await engine.store.owner("s")))[0].seq == 82
        finally:
            await engine.close()
    finally:
        one.end()


def _damage(folder: Path) -> None:
    """Flip a bit in the files of the logs; without an index the server reads them anew, and drops what is after it."""
    files = [path for path in folder.rglob("*.blk") if "DGM-LOG" in str(path)]
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        if len(data) > 200:
            data[len(data) // 3] ^= 1
            path.write_bytes(data)
        (path.parent / "index.db").unlink(missing_ok=True)


@pytest.mark.item("FL-27", "FL-30")
async def test_a_server_of_our_own_keeps_its_data_and_no_secret_is_in_its_files(tmp_path: Path) -> None:
    url = f"nats:{tmp_path / 'nats'}"
    options = EngineOptions(secrets_key=bytes(range(32)))
    engine = await open_nats(url, options)
    assert any("one disk" in line for line in engine.guarantees)
    await engine.store.append("s", [draft("kept")])
    await engine.store.keep_credentials("s", {"mcp": {"env": {"TOKEN": "hunter2-in-the-clear"}}})
    text, _ = await open_directory(engine, "", "owner").tokens.create("ann")
    beside = await open_nats(url, options)  # as `dragoman tokens` does while a host runs
    assert len(await beside.store.read("s")) == 1
    await beside.close()
    await engine.close()
    files = [path for path in (tmp_path / "nats").rglob("*") if path.is_file()]
    content = b"".join(path.read_bytes() for path in files)
    assert b"hunter2" not in content
    assert text.split("_", 2)[2].encode() not in content
    again = await open_nats(url, options)
    assert [entry.body["text"] for entry in await again.store.read("s")] == ["kept"]
    assert await again.store.credentials("s") == {"mcp": {"env": {"TOKEN": "hunter2-in-the-clear"}}}
    assert (await open_directory(again, "", "owner").tokens.verify(text)).user == "ann"
    await again.close()


@pytest.mark.parametrize(
    ("address", "why"),
    [("nats://ann:pw@a", "NATS_TOKEN"), ("nats://", "no server"), ("nats:///x", "no server")],
)
def test_an_address_with_a_password_or_without_a_server_is_refused(address: str, why: str) -> None:
    with pytest.raises(ConfigFault, match=why):
        parse_address(address)


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(StoreFault, match="cannot be reached") as caught:
        await open_engine("nats://127.0.0.1:1?monitor=http://127.0.0.1:1")
    assert caught.value.why == "away"


def test_ids_are_tokens_of_subjects_and_back() -> None:
    for text in ("abc-1_2", "x", "a.b", "ä", "", "*", ">", "0f0e0d0c-1111-2222-3333-444455556666", "a b" * 40):
        part = token(text)
        assert not set(part) & set(".*> "), text
        assert part, text
        assert untoken(part) == text
    assert head_subject("0f0e0d0c-1111") == "dgm.meta.head.0f0e0d0c.0f0e0d0c-1111"
    assert {Shards(4).stream(str(number)) for number in range(64)} == {f"DGM-LOG-{shard:02}" for shard in range(4)}
