"""The audit log is sealed: what was changed, removed, moved or cut off is found, and where."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.store.audit import AuditDamaged, AuditEntry, AuditFault, AuditLog, Checkpoint


def entry(number: int, **more: object) -> AuditEntry:
    """Something that happened."""
    values = {"operation": "file_write", "resource": f"/w/{number}", "decision": "allow", "reason": "é\n", **more}
    return AuditEntry(who="coder", what="decided", time=f"t{number}", **values)  # type: ignore[arg-type]


@pytest.fixture
def audit(tmp_path: Path) -> AuditLog:
    """A log with five entries."""
    log = AuditLog(str(tmp_path / "state" / "audit.jsonl"))
    for number in range(1, 6):
        log.append([entry(number)])
    return log


def lines(audit: AuditLog) -> list[str]:
    """The file, line by line."""
    return Path(audit.path).read_text().splitlines()


def write(audit: AuditLog, kept: list[str]) -> None:
    """The file, as somebody else left it."""
    Path(audit.path).write_text("".join(f"{line}\n" for line in kept))


def test_an_unchanged_log_verifies(audit: AuditLog) -> None:
    checked = audit.verify()
    assert (checked.entries, checked.faults) == (5, [])
    assert [each["resource"] for each in audit.entries()] == [f"/w/{number}" for number in range(1, 6)]


def test_a_missing_log_is_empty_and_verifies(tmp_path: Path) -> None:
    assert AuditLog(str(tmp_path / "none")).verify() == (0, (0, "0" * 64), [])


def test_entries_have_all_given_members(audit: AuditLog) -> None:
    audit.append([entry(6, session="s", workspace="/w", mode="plan", detail={"a": [1, None, "x"]})])
    last = list(audit.entries())[-1]
    assert (last["seq"], last["who"], last["session"], last["detail"]) == (6, "coder", "s", {"a": [1, None, "x"]})
    assert audit.verify().faults == []


def test_only_the_owner_can_read_it(audit: AuditLog) -> None:
    assert stat.S_IMODE(os.stat(audit.path).st_mode) == 0o600


def swap(kept: list[str]) -> list[str]:
    """Two entries in the wrong order."""
    return [*kept[:1], kept[2], kept[1], *kept[3:]]


def change(kept: list[str]) -> list[str]:
    """One entry says something else."""
    return [*kept[:2], kept[2].replace('"allow"', '"deny"'), *kept[3:]]


def add_member(kept: list[str]) -> list[str]:
    """One entry says something more."""
    return [*kept[:2], kept[2].replace('{"seq":3', '{"x":1,"seq":3'), *kept[3:]]


def resealed(kept: list[str]) -> list[str]:
    """One entry was changed and sealed again, which breaks the seal of the next."""
    from hashlib import sha256

    import msgspec

    entry = json.loads(kept[2])
    entry["decision"] = "deny"
    entry.pop("hash")
    seal = sha256(msgspec.json.encode(entry, order="sorted")).hexdigest()
    return [*kept[:2], msgspec.json.encode(entry | {"hash": seal}).decode(), *kept[3:]]


@pytest.mark.parametrize(
    ("tamper", "faults"),
    [
        (change, [(3, "entry 3 was changed")]),
        (add_member, [(3, "entry 3 was changed")]),
        (resealed, [(4, "entry 4 does not follow entry 3")]),
        (lambda kept: kept[:2] + kept[3:], [(3, "entry 3 missing before entry 4")]),
        (lambda kept: kept[3:], [(1, "entries 1 to 3 missing before entry 4")]),
        (
            swap,
            [
                (2, "entry 2 missing before entry 3"),
                (3, "entry 2 comes after entry 3: out of order or duplicated"),
                (4, "entry 3 missing before entry 4"),
            ],
        ),
        (
            lambda kept: [*kept[:3], kept[2], *kept[3:]],
            [(4, "entry 3 comes after entry 3: out of order or duplicated")],
        ),
        (
            lambda kept: [*kept[:2], "{", *kept[3:]],
            [(3, "not an entry: incomplete after a crash, or changed"), (4, "entry 3 missing before entry 4")],
        ),
        (lambda kept: kept[:3], [(3, "entry 5 was written and is missing")]),
        (lambda _: [], [(0, "entry 5 was written and is missing")]),
    ],
)
def test_tampering_is_found_with_its_line(
    audit: AuditLog, tamper: Callable[[list[str]], list[str]], faults: list[tuple[int, str]]
) -> None:
    write(audit, tamper(lines(audit)))
    found = audit.verify().faults
    assert found == [AuditFault(line, what) for line, what in faults]


def test_a_checkpoint_kept_elsewhere_detects_a_rewritten_log(audit: AuditLog) -> None:
    mark = audit.verify().last
    os.unlink(audit.path)
    os.unlink(audit.path + ".head")
    for number in range(1, 6):
        audit.append([entry(number, decision="deny")])
    assert audit.verify().faults == []
    assert audit.verify([mark]).faults == [AuditFault(5, "entry 5 differs from what was written")]


def test_an_incomplete_line_is_removed_before_the_next_append(audit: AuditLog) -> None:
    with open(audit.path, "a") as file:
        file.write('{"seq":6,"who":"cod')
    assert audit.append([entry(6)]).seq == 6
    assert audit.verify().faults == []
    assert len(lines(audit)) == 6


def test_a_log_without_any_entry_is_not_continued(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "log"))
    Path(log.path).write_text("something else\n")
    with pytest.raises(AuditDamaged, match="move the file away"):
        log.append([entry(1)])
    assert Path(log.path).read_text() == "something else\n"


def test_very_long_entries_are_continued(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "log"), durable=False)
    log.append([entry(1, resource="x" * 300_000)])
    assert log.append([entry(2), entry(3)]) == log.verify().last
    assert log.verify().last.seq == 3


def _append(path: str, name: str) -> None:
    log = AuditLog(path, durable=False)
    for number in range(50):
        log.append([entry(number, session=name)])


def test_several_processes_write_one_chain(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_append, args=(path, name)) for name in "xyz"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    checked = AuditLog(path).verify()
    assert (checked.entries, checked.faults) == (150, [])


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        AuditLog(str(tmp_path / "log")).append([entry(1)])
    assert not (tmp_path / "elsewhere").exists()


def test_marks_have_a_number_and_a_hash(audit: AuditLog) -> None:
    assert audit.verify().last == Checkpoint(5, json.loads(lines(audit)[-1])["hash"])


def test_a_truncated_log_keeps_a_gap_entry(audit: AuditLog) -> None:
    """Whoever cuts the end off cannot wait for the next entry to cover it."""
    write(audit, lines(audit)[:3])
    for log in (audit, AuditLog(audit.path)):
        log.append([entry(6)])
    assert [each["what"] for each in audit.entries()] == ["decided"] * 3 + ["gap", "decided", "decided"]
    assert audit.verify().faults == [AuditFault(4, "entry 5 was written before this one and is missing")]


def test_a_removed_log_is_detected(audit: AuditLog) -> None:
    os.unlink(audit.path)
    AuditLog(audit.path).append([entry(1)])
    assert audit.verify().faults == [AuditFault(1, "entry 5 was written before this one and is missing")]


def test_a_duplicate_member_is_detected_as_a_change(audit: AuditLog) -> None:
    """The last one is read, and has the right seal; people see the first."""
    kept = lines(audit)
    write(audit, [*kept[:2], kept[2].replace('{"seq":3', '{"decision":"deny","seq":3'), *kept[3:]])
    assert audit.verify().faults == [AuditFault(3, "entry 3 was changed")]


def _verify(path: str, rounds: int) -> None:
    for _ in range(rounds):
        faults = AuditLog(path).verify().faults
        assert faults == [], faults


def test_a_log_verifies_at_any_time_while_others_append(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    AuditLog(path, durable=False).append([entry(0)])
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_append, args=(path, "x")),
        context.Process(target=_append, args=(path, "y")),
        context.Process(target=_verify, args=(path, 100)),
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    checked = AuditLog(path).verify()
    assert (checked.entries, checked.faults) == (101, [])


def test_a_log_is_checked_without_adding_to_it(audit: AuditLog, tmp_path: Path) -> None:
    audit.check()
    assert len(lines(audit)) == 5
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        AuditLog(str(tmp_path / "file" / "log")).check()
