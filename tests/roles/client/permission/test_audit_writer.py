"""The audit log as tasks write it: in order, and waiting only for other processes and for the disk."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from pathlib import Path

import pytest

from dragoman.ids import now
from dragoman.policy.redaction import Redactor
from dragoman.roles.client.permission.audit_writer import AuditWriter
from dragoman.store.audit import AuditEntry, AuditLog


def entry(number: int) -> AuditEntry:
    return AuditEntry(who="agent", what="done", time=now(), resource=f"/w/{number}")


def resources(log: AuditLog) -> list[str]:
    return [str(each["resource"]) for each in log.entries()]


async def test_entries_that_need_no_sync_are_written_without_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog(str(tmp_path / "audit.jsonl"))
    threads: list[str] = []
    append = log.append

    def spy(*entries: object, **options: object) -> object:
        threads.append(threading.current_thread().name)
        return append(*entries, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(log, "append", spy)
    writer = AuditWriter(log, Redactor([]))
    await writer.write(entry(1), durable=False)
    assert threads == [threading.main_thread().name]
    await writer.write(entry(2), durable=True)
    assert threads[1] != threading.main_thread().name
    assert resources(log) == ["/w/1", "/w/2"]
    assert log.verify().faults == []


async def test_the_event_loop_goes_on_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(str(path))
    writer = AuditWriter(log, Redactor([]))
    await writer.write(entry(1))
    other = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting = asyncio.ensure_future(writer.write(entry(2), durable=False))
        await asyncio.sleep(0)  # a blocked event loop would not come back from here
        assert not waiting.done()
    finally:
        os.close(other)
    await asyncio.wait_for(waiting, 60)
    assert resources(log) == ["/w/1", "/w/2"]


async def test_a_log_that_cannot_be_written_fails_the_use(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    writer = AuditWriter(AuditLog(str(tmp_path / "audit.jsonl")), Redactor([]))
    with pytest.raises(OSError, match=r"audit\.jsonl"):
        await writer.write(entry(1), durable=False)
