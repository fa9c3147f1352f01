"""Damaged logs: the damage is detected and reported, intact entries stay readable, and the log can be repaired."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dragoman.cli.sessions.files import repair_store
from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.store.contract import Draft, Entry
from dragoman.store.sqlite import SqliteStore, rebuild
from dragoman.store.sqlite.schema import ENTRIES_PER_SESSION, PAGE_SIZE

COUNT = 600


def draft(number: int) -> Draft:
    text = f"text {number} " * 10
    body = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return Draft(kind="update", actor="agent", time="2026-01-01T00:00:00Z", body=body)


async def write(path: Path, sessions: tuple[str, ...] = ("one", "two")) -> None:
    store = await SqliteStore.open(str(path), durability="off")
    for session in sessions:
        await store.append(session, [draft(n) for n in range(1, COUNT + 1)])
    await store.close()


def change(path: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute(sql, values)
        file.commit()


def kind_of(path: Path, session: str = "one") -> str:
    async def main() -> str:
        store = await SqliteStore.open(str(path))
        try:
            await store.read(session)
        except ProtocolError as error:
            return error.kind
        finally:
            await store.close()
        return ""

    return asyncio.run(main())


DAMAGE = {
    "a byte of an entry": ("UPDATE entries SET entry = replace(entry, 'text 7 ', 'text 8 ') WHERE place = ?", 7),
    "a checksum": ("UPDATE entries SET sum = sum + 1 WHERE place = ?", 7),
    "an entry in the middle": ("DELETE FROM entries WHERE place = ?", 7),
    "the last entry": ("DELETE FROM entries WHERE place = ?", COUNT),
    "an entry cut short": ("UPDATE entries SET entry = substr(entry, 1, 20) WHERE place = ?", 7),
    "a newline inside": ("UPDATE entries SET entry = replace(entry, 'text', char(10)) WHERE place = ?", 7),
}


@pytest.mark.parametrize("what", DAMAGE)
async def test_damage_is_session_corrupted_and_the_rest_is_readable(tmp_path: Path, what: str) -> None:
    path = tmp_path / "sessions.db"
    await write(path)
    sql, seq = DAMAGE[what]
    change(path, sql, ENTRIES_PER_SESSION + seq)
    if what == "a newline inside":
        change(path, "UPDATE entries SET entry = entry || char(10) || '{}' WHERE place = ?", ENTRIES_PER_SESSION + seq)

    store = await SqliteStore.open(str(path))
    with pytest.raises(ProtocolError, match=r"repair one") as caught:
        await store.read("one")
    assert caught.value.kind == Kind.SESSION_CORRUPTED
    assert caught.value.data == {"sessionId": "one", "lost": [(seq, seq)]}
    intact = await store.read("one", intact=True)
    assert [entry.seq for entry in intact] == [n for n in range(1, COUNT + 1) if n != seq]
    assert len(await store.read("two")) == COUNT
    report = await store.verify("one")
    assert report.lost == [(seq, seq)]
    assert await store.repair("one") == report
    entries = await store.read("one")
    assert [entry.seq for entry in entries] == list(range(1, COUNT + 1))
    assert [entry.seq for entry in entries if entry.kind == "lost"] == [seq]
    assert (await store.append("one", [draft(1)]))[0].seq == COUNT + 1
    assert (await store.verify("one")).is_intact
    await store.close()


def test_missing_expired_and_damaged_sessions_have_different_errors(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    asyncio.run(write(path))
    change(path, "DELETE FROM entries WHERE place = ?", ENTRIES_PER_SESSION + 1)
    change(path, "UPDATE sessions SET expired_at = 'x' WHERE id = 'two'")
    assert [kind_of(path, id) for id in ("one", "two", "three")] == [
        Kind.SESSION_CORRUPTED,
        Kind.SESSION_EXPIRED,
        Kind.SESSION_NOT_FOUND,
    ]


async def test_a_session_list_with_too_low_counts_hides_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    await write(path)
    change(path, "UPDATE progress SET entries = 10 WHERE number = 1")
    assert await asyncio.to_thread(kind_of, path) == Kind.SESSION_CORRUPTED

    store = await SqliteStore.open(str(path))
    assert (await store.repair("one")).kept == [(1, COUNT)]
    assert len(await store.read("one")) == COUNT
    await store.close()


async def indexed(path: Path) -> None:
    store = await SqliteStore.open(str(path))
    assert await store.search("text")
    await store.close()


async def survey(path: Path, expected: dict[int, Entry]) -> str:
    """Read and search a damaged file as a user would: nothing wrong is ever given for right."""
    try:
        store = await SqliteStore.open(str(path))
    except StoreFault as fault:
        return fault.why
    try:
        with suppress(ProtocolError):
            assert {hit.session_id for hit in await store.search("text")} <= {"one", "two"}
        for _ in range(2):
            try:
                entries = await store.read("one")
            except ProtocolError as error:
                return error.kind
            assert {entry.seq: entry for entry in entries} == expected
        return "whole"
    finally:
        await store.close()


@pytest.mark.parametrize("way", ["flip", "cut", "zero"])
def test_a_file_damaged_anywhere_gives_correct_data_or_an_error_and_can_be_rebuilt(tmp_path: Path, way: str) -> None:
    source = tmp_path / "whole.db"
    asyncio.run(write(source))

    async def whole() -> dict[int, Entry]:
        store = await SqliteStore.open(str(source))
        entries = await store.read("one")
        await store.close()
        return {entry.seq: entry for entry in entries}

    expected = asyncio.run(whole())
    asyncio.run(indexed(source))
    size = source.stat().st_size
    dice = random.Random(f"damage by {way}")
    outcomes = set()
    rebuilt = 0
    for turn in range(25):
        path = tmp_path / f"{way}-{turn}.db"
        shutil.copyfile(source, path)
        with open(path, "r+b") as file:
            place = dice.randrange(100, size)
            if way == "cut":
                file.truncate(place)
            elif way == "zero":
                file.seek(place // 4096 * 4096)
                file.write(bytes(4096))
            else:
                for _ in range(8):
                    file.seek(place := dice.randrange(100, size))
                    byte = file.read(1)[0]
                    file.seek(place)
                    file.write(bytes([byte ^ (1 << dice.randrange(8))]))
        outcomes.add(asyncio.run(survey(path, expected)))
        assert outcomes <= {"whole", "damaged", Kind.SESSION_CORRUPTED, Kind.SESSION_NOT_FOUND, Kind.INTERNAL_ERROR}
        try:
            rebuild(str(path))
        except StoreFault:
            continue
        rebuilt += 1
        asyncio.run(rebuilt_is_true(path, expected))
    assert outcomes - {"whole"}, "no damage was noticed at all"
    assert rebuilt > 20, "hardly any file could be rebuilt"


def test_whatever_page_is_damaged_a_repair_makes_everything_readable_and_found(tmp_path: Path) -> None:
    source = tmp_path / "whole.db"
    asyncio.run(write(source))
    asyncio.run(indexed(source))
    dice = random.Random("a page")
    pages = source.stat().st_size // PAGE_SIZE

    async def looked_at(path: Path) -> None:
        store = await SqliteStore.open(str(path))
        try:
            for summary in await store.sessions():
                assert (await store.verify(summary.session_id)).is_intact
                await store.read(summary.session_id)
            assert await store.search("text")
        finally:
            await store.close()

    for turn in range(30):
        path = tmp_path / f"{turn}.db"
        shutil.copyfile(source, path)
        with open(path, "r+b") as file:
            file.seek(dice.randrange(1, pages) * PAGE_SIZE)
            file.write(dice.randbytes(PAGE_SIZE))
        repair_store(str(path), None)
        asyncio.run(looked_at(path))


async def rebuilt_is_true(path: Path, expected: dict[int, Entry]) -> None:
    """After a rebuild every session can be read; what is not lost is as it was, also under another id."""
    store = await SqliteStore.open(str(path))
    for summary in await store.sessions():
        entries = await store.read(summary.session_id)
        for entry in entries:
            assert entry.kind == "lost" or entry == expected[entry.seq]
        await store.append(summary.session_id, [draft(1)])
    await store.close()


def test_a_rebuild_saves_the_rest_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    asyncio.run(write(path))
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)
    old = path.read_bytes()
    reports, aside = rebuild(str(path))
    assert {report.session_id for report in reports} == {"one", "two"}
    assert sum(last - first + 1 for report in reports for first, last in report.kept) > COUNT // 3
    assert sum(last - first + 1 for report in reports for first, last in report.lost) > COUNT // 3
    assert Path(aside).read_bytes() == old
    assert kind_of(path) == ""


def test_a_file_without_its_first_page_is_rebuilt_too(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    asyncio.run(write(path))
    with open(path, "r+b") as file:
        file.write(bytes(4096))
    assert [report.kept for report in rebuild(str(path)).reports] == [[(1, COUNT)]] * 2
    assert kind_of(path) == ""


def test_a_rebuild_keeps_the_marks_of_imported_entries(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"

    async def main() -> None:
        store = await SqliteStore.open(str(path))
        await store.begin_import("one", 2)
        for session in ("one", "two", "three"):
            await store.append(session, [draft(n) for n in range(1, 4)])
        await store.close()

    asyncio.run(main())
    change(path, "DELETE FROM sessions WHERE id = 'two'")
    rebuild(str(path))

    async def look() -> None:
        store = await SqliteStore.open(str(path))
        assert {each.session_id: each.imported for each in await store.sessions()} == {
            "one": 2, "recovered-2": 3, "three": 0,
        }  # fmt: skip
        await store.close()

    asyncio.run(look())


async def test_a_rebuild_needs_exclusive_access(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    await write(path)
    store = SqliteStore(str(path))
    with pytest.raises(StoreFault, match="other programs use it") as caught:
        rebuild(str(path))
    assert caught.value.why == "locked"
    await store.close()
    assert all(report.is_intact for report in rebuild(str(path)).reports)


async def test_a_truncated_write_ahead_file_loses_only_its_truncated_entries(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    torn = tmp_path / "torn.db"

    store = await SqliteStore.open(str(path))
    for number in range(1, 40):
        await store.append("one", [draft(number)])
    for end in ("", "-wal"):
        shutil.copyfile(f"{path}{end}", f"{torn}{end}")
    await store.close()
    wal = Path(f"{torn}-wal")
    os.truncate(wal, wal.stat().st_size - 5000)
    store = await SqliteStore.open(str(torn))
    entries = await store.read("one")
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert 30 <= len(entries) < 39
    assert (await store.append("one", [draft(1)]))[0].seq == len(entries) + 1
    await store.close()


def leaves(path: Path) -> list[int]:
    """The pages that hold entries and nothing else, in the order of the entries."""
    data = path.read_bytes()
    found = []
    for page in range(1, len(data) // PAGE_SIZE):
        start = page * PAGE_SIZE
        if data[start] != 0x0D:  # a leaf of a table (the SQLite file format, 1.6)
            continue
        cell = start + int.from_bytes(data[start + 8 : start + 10], "big")
        _, cell = varint(data, cell)
        place, _ = varint(data, cell)
        if place > ENTRIES_PER_SESSION:
            found.append((place, page))
    return [page for _, page in sorted(found)]


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count in range(8):
        byte = data[at + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + count + 1
    return value << 8 | data[at + 8], at + 9


def test_swapped_pages_are_detected_and_repaired(tmp_path: Path) -> None:
    source = tmp_path / "whole.db"
    asyncio.run(write(source, ("one",)))

    async def whole() -> dict[int, Entry]:
        store = await SqliteStore.open(str(source))
        entries = await store.read("one")
        await store.close()
        return {entry.seq: entry for entry in entries}

    expected = asyncio.run(whole())
    pages = leaves(source)
    assert len(pages) > 20

    async def looked_at(path: Path) -> None:
        store = await SqliteStore.open(str(path))
        try:
            with pytest.raises(ProtocolError) as caught:
                await store.read("one")
            assert caught.value.kind == Kind.SESSION_CORRUPTED
            assert not (await store.verify("one")).is_intact
            for entry in await store.read("one", intact=True):
                assert entry == expected[entry.seq]
            assert (await store.search("text"))[0].session_id == "one"
        finally:
            await store.close()

    for turn, first in enumerate(range(0, len(pages) - 3, 3)):
        path = tmp_path / f"swapped-{turn}.db"
        data = bytearray(source.read_bytes())
        one, two = (
            slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE) for page in (pages[first], pages[first + 1 + turn % 2])
        )
        data[one], data[two] = data[two], data[one]
        path.write_bytes(data)
        asyncio.run(looked_at(path))
        assert not repair_store(str(path), None).reports[0].is_intact
        asyncio.run(rebuilt_is_true(path, expected))
        assert all(report.is_intact for report in repair_store(str(path), None).reports)


DAMAGED_INDEX = {
    "a text": "UPDATE passages SET text = CAST(x'74657874ff' AS TEXT)",
    "a role": "UPDATE passages SET role = CAST(x'ff' AS TEXT)",
    "a number": "UPDATE passages SET first = 'x'",
}


@pytest.mark.parametrize("what", DAMAGED_INDEX)
async def test_an_index_without_text_is_rebuilt(tmp_path: Path, what: str) -> None:
    path = tmp_path / "sessions.db"
    await write(path, ("one",))

    store = await SqliteStore.open(str(path))
    before = await store.search('"text 17"')
    await store.close()
    change(path, DAMAGED_INDEX[what])
    store = await SqliteStore.open(str(path))
    assert await store.search('"text 17"') == before != []
    await store.close()


def test_the_error_for_a_damaged_schema_name_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    asyncio.run(write(path))
    data = path.read_bytes()
    assert data.count(b"CREATE TABLE progress") == 1
    # SQLite says which name it cannot make sense of, and Python cannot read that.
    data = data.replace(b"progressprogress", b"pr\xffgresspr\xffgress")
    path.write_bytes(data.replace(b"CREATE TABLE progress", b"CREATE TABBE progress"))
    with pytest.raises(StoreFault, match="sessions repair") as caught:
        SqliteStore(str(path))
    assert caught.value.why == "damaged"
    assert {report.session_id for report in repair_store(str(path), None).reports} == {"one", "two"}


async def test_a_damaged_index_is_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    await write(path, ("one",))

    store = await SqliteStore.open(str(path))
    before = await store.search('"text 17"')
    await store.close()
    change(path, "UPDATE search_data SET block = x'00112233445566778899' WHERE id > 1")
    store = await SqliteStore.open(str(path))
    assert await store.search('"text 17"') == before != []
    await store.close()
