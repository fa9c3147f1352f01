"""Two versions with two formats of entries on one store: nothing is lost, and a downgrade works until the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from dragoman.errors import ProtocolError, StoreFault
from dragoman.host.fleet.fleet_format import finish_upgrade, read_fleet_format, use_fleet_format
from dragoman.store import formats
from dragoman.store.contract import Draft, decode_entry, decode_raw_entry, lift_entry
from dragoman.store.fleet import NodeInfo
from dragoman.store.formats import lift_line, lower_text
from dragoman.store.local_fleet import local_engine
from dragoman.store.memory import MemoryStore
from tests.cli.process import DRAGOMAN
from tests.host.fleet.run.next_version import ADDED, SECOND
from tests.host.fleet.run.rolling import NEXT, RollingRun, fleet_command

OLD_LINE = b'{"seq":7,"kind":"prompt","actor":"ann","time":"t","body":{"a":1},"turn":null}'
NEW_LINE = b'{"seq":7,"format":2,"kind":"prompt","actor":"ann","time":"t","body":{"a":1},"turn":null,"since":"now"}'


@pytest.mark.item("FL-21")
async def test_a_rolling_update_under_load_loses_nothing_and_can_be_taken_back(
    tmp_path: Path, postgres_url: Callable[[], str]
) -> None:
    with ExitStack() as stack:
        run = RollingRun(tmp_path, postgres_url(), stack)
        await run.start(nodes=2, sessions=2, clients=3)
        first, second = run.nodes
        await first.replace(NEXT)
        await run.work(3)
        refused = fleet_command(run.store, "finish-upgrade")
        assert "update all of them first" in refused.stderr
        await first.replace(DRAGOMAN)  # taken back
        await run.work(3)
        await first.replace(NEXT)
        await second.replace(NEXT)
        await run.work(3)
        assert await run.written_formats() == {1}, "the old version could come back until now"
        finished = fleet_command(run.store, "finish-upgrade")
        assert "all nodes write format 2" in finished.stdout, finished.stderr
        while 2 not in await run.written_formats():  # nodes look for it every few seconds, if the signal was lost
            await run.work(3)
        with pytest.raises(AssertionError, match=r"have format 2, and this Dragoman reads up to 1; update Dragoman"):
            await first.replace(DRAGOMAN)
        await run.work(3)
        assert await run.finish() == []
        assert run.interrupted() == 0, "each node was drained"


@pytest.fixture
def second_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is of the next version."""
    monkeypatch.setattr(formats, "FORMATS", [*formats.FORMATS, SECOND])


def test_a_line_of_a_newer_format_is_refused_by_name() -> None:
    for decode in (decode_entry, decode_raw_entry):
        assert decode(OLD_LINE).seq == 7
        with pytest.raises(StoreFault, match="have format 2, and this Dragoman reads up to 1") as found:
            decode(NEW_LINE)
        assert found.value.why == "newer"


@pytest.mark.usefixtures("second_format")
def test_a_newer_version_reads_both_formats_and_writes_either() -> None:
    lifted = lift_line(OLD_LINE)
    assert lifted.startswith(b'{"seq":7,"format":2,')
    assert ADDED.encode() in lifted
    assert lift_line(NEW_LINE) == NEW_LINE
    for line in (OLD_LINE, NEW_LINE):
        assert decode_entry(line).format == 2
        assert decode_raw_entry(line).value == {"a": 1}
    text = b'{"kind":"prompt","since":"now"}'
    assert lower_text(text, 2) == b'{"format":2,"kind":"prompt","since":"now"}'
    assert lower_text(text, 1) == b'{"kind":"prompt"}'
    assert lift_entry(decode_raw_entry(NEW_LINE)).value == {"a": 1}


@pytest.mark.usefixtures("second_format")
async def test_a_store_of_a_newer_version_returns_what_it_stored() -> None:
    store, draft = MemoryStore(), Draft(kind="prompt", actor="ann", time="t", body={"a": 1})
    assert await store.append("s", [draft]) == await store.read("s")


@pytest.mark.usefixtures("second_format")
async def test_an_update_is_finished_only_when_every_living_node_reads_the_format() -> None:
    engine = local_engine("memory", MemoryStore(), [])
    await engine.nodes.join(NodeInfo(node="n1", version="99", state={"formats": [1, 2]}), seconds=60)
    old = await engine.nodes.join(NodeInfo(node="n2", version="99", state={"formats": [1]}), seconds=60)
    assert await finish_upgrade(engine) == (1, 1)
    await engine.nodes.leave(old)
    assert await finish_upgrade(engine) == (1, 2)
    await use_fleet_format(engine)
    assert engine.format == 2
    assert await finish_upgrade(engine) == (2, 2)


async def test_a_node_that_joins_while_an_update_is_finished_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = local_engine("memory", MemoryStore(), [])
    monkeypatch.setattr(formats, "FORMATS", [*formats.FORMATS, SECOND])
    await engine.nodes.join(NodeInfo(node="n1", version="99", state={"formats": [1, 2]}), seconds=60)
    put = engine.records.put

    async def join_and_put(*arguments: object, **options: object) -> int:
        version = await put(*arguments, **options)  # type: ignore[arg-type]
        await engine.nodes.join(NodeInfo(node="n2", version="1", state={"formats": [1]}), seconds=60)
        monkeypatch.setattr(engine.records, "put", put)
        return version

    monkeypatch.setattr(engine.records, "put", join_and_put)
    with pytest.raises(ProtocolError, match="a node of an older version has just joined"):
        await finish_upgrade(engine)
    assert (await read_fleet_format(engine.records))[0].read == 1
    monkeypatch.setattr(formats, "FORMATS", formats.FORMATS[:1])
    await use_fleet_format(engine)  # the old node may stay
