"""Anchors of audit logs in the engine: what was removed, changed or forged is found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from dragoman.cli.commands import audit as audit_command
from dragoman.host.fleet import fleet as fleet_module
from dragoman.host.fleet.audit_anchors import KIND, AuditAnchors, anchor_key, read_anchors, verify_anchors
from dragoman.store.audit import AuditEntry, AuditLog
from dragoman.store.fleet import Records
from dragoman.store.local_fleet import LocalRecords, local_engine
from dragoman.store.memory import MemoryStore
from dragoman.store.urls import open_engine
from tests.host.fleet.memory_fleet import running_fleet

SECRETS_KEY = bytes(range(32))


def write(log: AuditLog, *what: str) -> None:
    log.append([AuditEntry(who="ann", what="decided", time="t", resource=each) for each in what])


async def two_nodes(folder: Path, records: Records) -> dict[str, AuditLog]:
    """Return the logs of two nodes with two anchors each, and an entry that is not anchored."""
    logs = {name: AuditLog(str(folder / name / "audit.jsonl")) for name in ("n1", "n2")}
    anchors = [AuditAnchors(records, name, log, anchor_key(SECRETS_KEY)) for name, log in logs.items()]
    for turn in range(2):
        for log, kept in zip(logs.values(), anchors, strict=True):
            write(log, f"a{turn}", f"b{turn}", f"c{turn}")
            assert await kept.anchor() is not None
            assert await kept.anchor() is None, "nothing changed"
    write(logs["n1"], "not anchored")
    return logs


def lines_of(log: AuditLog) -> list[bytes]:
    return Path(log.path).read_bytes().splitlines(keepends=True)


@pytest.mark.item("FL-24")
async def test_removed_entries_logs_and_anchors_and_forged_anchors_are_found(tmp_path: Path) -> None:
    records, key = LocalRecords(), anchor_key(SECRETS_KEY)
    logs = await two_nodes(tmp_path, records)
    anchors = await read_anchors(records)
    assert verify_anchors(anchors, logs, key) == {}
    assert "its log is not here" in str(verify_anchors(anchors, {"n1": logs["n1"]}, key)["n2"])
    forged = [msgspec.structs.replace(each, seq=5) if each.node == "n2" else each for each in anchors]
    assert "wrong seal" in str(verify_anchors(forged, logs, key)["n2"])
    assert "wrong seal" in str(verify_anchors(anchors, logs, anchor_key(b"x" * 32))["n1"])
    last_of_first = [each for each in anchors if (each.node, each.number) != ("n1", 2)]
    assert verify_anchors(last_of_first, logs, key) == {"n1": ["anchor 2 is missing: node n2 saw it"]}
    # The end of a log is cut off, and the file beside it is made to fit: only the anchor knows.
    kept = lines_of(logs["n2"])
    Path(logs["n2"].path).write_bytes(b"".join(kept[:-1]))
    last = msgspec.json.decode(kept[-2])
    Path(f"{logs['n2'].path}.head").write_text(f"{last['seq']:020d} {last['hash']}\n")
    assert logs["n2"].verify().faults == []
    assert verify_anchors(anchors, logs, key) == {"n2": ["line 5: entry 6 was written and is missing"]}


@pytest.mark.item("FL-24")
async def test_the_command_verifies_a_fleet(
    tmp_path: Path, postgres_url: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    url, key = postgres_url(), tmp_path / "key"
    key.write_text(SECRETS_KEY.hex())
    key.chmod(0o600)
    engine = await open_engine(url)
    logs = await two_nodes(tmp_path, engine.records)

    async def verify(*nodes: str) -> tuple[int, str]:
        chains = [word for node in nodes for word in ("--chain", f"{node}={logs[node].path}")]
        words = ["verify", "--fleet", "--store", url, "--secrets-key", str(key), *chains]
        code = await asyncio.to_thread(audit_command.main, words)
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    assert await verify("n1", "n2") == (0, "2 nodes, 4 anchors, all logs intact\n")
    assert await verify("n1") == (1, "n2: its log is not here; name it with --chain n2=FILE\n")
    await engine.records.delete(KIND, "n1/0000000002")
    assert await verify("n1", "n2") == (1, "n1: anchor 2 is missing: node n2 saw it\n")
    await engine.close()


async def test_a_node_anchors_its_log_while_it_runs_and_when_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "ANCHOR_INTERVAL", 0.01)
    engine, log = local_engine("memory", MemoryStore(), []), AuditLog(str(tmp_path / "audit.jsonl"))
    anchors = AuditAnchors(engine.records, "n1", log, anchor_key(SECRETS_KEY))
    write(log, "one")
    async with running_fleet(("n1",), engine=engine, audit=anchors):
        while not await read_anchors(engine.records):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        monkeypatch.setattr(fleet_module, "ANCHOR_INTERVAL", 3600)
        write(log, "two")
    assert [each.seq for each in await read_anchors(engine.records)] == [1, 2]
