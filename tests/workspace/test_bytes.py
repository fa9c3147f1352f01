"""Byte ranges, listings, folders, and several files written together."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace import files as files_module
from dragoman.workspace import listing
from dragoman.workspace.atomic_batch import MAX_FILES
from dragoman.workspace.files import ByteRange, Files, WriteResult
from dragoman.workspace.paths import PathTarget


def refusal(call: Callable[[], object]) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        call()
    return caught.value


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    (tmp_path / "inside").mkdir()
    return tmp_path / "inside"


@pytest.fixture
def files(inside: Path) -> Files:
    return Files([str(inside)])


# --- bytes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "length", "piece"),
    [
        (None, None, ByteRange(b"\x00\xff\n\r", 4, False)),
        (1, None, ByteRange(b"\xff\n\r", 4, False)),
        (None, 2, ByteRange(b"\x00\xff", 4, True)),
        (2, 2, ByteRange(b"\n\r", 4, False)),
        (3, 9, ByteRange(b"\r", 4, False)),
        (4, 1, ByteRange(b"", 4, False)),
        (2**70, 1, ByteRange(b"", 4, False)),
        (0, 0, ByteRange(b"", 4, True)),
    ],
)
def test_byte_ranges_are_returned_exactly(
    files: Files, inside: Path, offset: int | None, length: int | None, piece: ByteRange
) -> None:
    (inside / "f").write_bytes(b"\x00\xff\n\r")
    assert files.read_bytes(str(inside / "f"), offset, length) == piece


def test_a_file_larger_than_a_message_is_read_in_ranges(
    files: Files, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_module, "MAX_RANGE_BYTES", 3)
    (inside / "f").write_bytes(b"abcdefgh")
    got = b""
    while True:
        piece = files.read_bytes(str(inside / "f"), len(got), 100)
        assert len(piece.data) <= 3
        got += piece.data
        if not piece.truncated:
            break
    assert (got, piece.size) == (b"abcdefgh", 8)


@pytest.mark.parametrize(("offset", "length"), [(-1, None), (None, -1)])
def test_negative_offsets_are_invalid(files: Files, inside: Path, offset: int | None, length: int | None) -> None:
    (inside / "f").write_bytes(b"1")
    assert refusal(lambda: files.read_bytes(str(inside / "f"), offset, length)).kind == Kind.INVALID_PARAMS


def test_bytes_are_written_like_text(files: Files, inside: Path) -> None:
    data = bytes(range(256))
    path = str(inside / "new" / "f")
    assert refusal(lambda: files.write_bytes(path, data)).kind == Kind.RESOURCE_NOT_FOUND
    assert files.write_bytes(path, data, create_directories=True) == WriteResult(256, created=True)
    assert files.read_bytes(path).data == data
    assert files.write_bytes(path, b"") == WriteResult(0, created=False)
    assert refusal(lambda: files.write_bytes(path, b"x", overwrite=False)).kind == Kind.INVALID_PARAMS
    small = Files([str(inside)], max_bytes=3)
    assert refusal(lambda: small.write_bytes(path, b"1234")).kind == Kind.TOO_LARGE


# --- listings -----------------------------------------------------------------------------------------------------


def tree(inside: Path) -> None:
    (inside / "b" / "c").mkdir(parents=True)
    (inside / "a.txt").write_text("four")
    os.utime(inside / "a.txt", (1_700_000_000, 1_700_000_000))
    (inside / "b" / "c" / "deep").write_text("")
    os.symlink("/etc", inside / "link")
    os.mkfifo(inside / "pipe")


def test_a_folder_is_listed_with_kinds_sizes_and_times(files: Files, inside: Path) -> None:
    tree(inside)
    entries, truncated = files.list(str(inside))
    assert [(entry.name, entry.type, entry.size) for entry in entries] == [
        ("a.txt", "file", 4),
        ("b", "directory", None),
        ("link", "symlink", None),
        ("pipe", "other", None),
    ]
    assert entries[0].modified_at == "2023-11-14T22:13:20.000Z"
    assert not truncated


def test_a_tree_is_listed_breadth_first_without_following_links(files: Files, inside: Path) -> None:
    tree(inside)
    os.symlink(inside, inside / "b" / "ring")
    entries, truncated = files.list(str(inside) + "/", recursive=True)
    assert [entry.name for entry in entries] == ["a.txt", "b", "link", "pipe", "b/c", "b/ring", "b/c/deep"]
    assert not truncated


@pytest.mark.parametrize(("limit", "count", "truncated"), [(0, 0, True), (3, 3, True), (6, 6, False), (7, 6, False)])
def test_a_truncated_listing_says_so(files: Files, inside: Path, limit: int, count: int, truncated: bool) -> None:
    tree(inside)
    found = files.list(str(inside), recursive=True, limit=limit)
    assert (len(found.entries), found.truncated) == (count, truncated)


def test_listings_are_bounded_without_a_limit(files: Files, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcd":
        (inside / name).mkdir()
    monkeypatch.setattr(listing, "MAX_ENTRIES", 3)
    assert len(files.list(str(inside), limit=100).entries) == 3
    monkeypatch.setattr(listing, "MAX_NAMES", 2)
    assert files.list(str(inside)).truncated
    monkeypatch.setattr(listing, "MAX_NAMES", 100)
    monkeypatch.setattr(listing, "MAX_DEPTH", 1)
    assert files.list(str(inside), recursive=True).truncated


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_left_out_and_reported(files: Files, inside: Path) -> None:
    (inside / "closed").mkdir(mode=0o000)
    try:
        found = files.list(str(inside), recursive=True)
        assert ([entry.name for entry in found.entries], found.truncated) == (["closed"], True)
    finally:
        (inside / "closed").chmod(0o700)


def test_a_name_that_is_not_utf8_is_listed_with_replacement_characters(files: Files, inside: Path) -> None:
    with open(os.fsencode(inside) + b"/a\xff", "w"):
        pass
    assert [entry.name for entry in files.list(str(inside)).entries] == ["a\ufffd"]


def test_only_folders_are_listed(files: Files, inside: Path) -> None:
    (inside / "f").write_text("")
    assert refusal(lambda: files.list(str(inside / "f"))).kind == Kind.RESOURCE_NOT_FOUND
    assert refusal(lambda: files.list(str(inside / "missing"))).kind == Kind.RESOURCE_NOT_FOUND
    assert refusal(lambda: files.list(str(inside), limit=-1)).kind == Kind.INVALID_PARAMS


# --- folders ------------------------------------------------------------------------------------------------------


def test_parent_folders_are_created_only_with_the_option(files: Files, inside: Path) -> None:
    assert files.make_directory(str(inside / "a")) is True
    assert files.make_directory(str(inside / "a") + "/") is False
    assert files.make_directory(str(inside)) is False
    assert refusal(lambda: files.make_directory(str(inside / "x" / "y"))).kind == Kind.RESOURCE_NOT_FOUND
    assert files.make_directory(str(inside / "x" / "y" / "z"), parents=True) is True
    assert (inside / "x" / "y" / "z").is_dir()
    (inside / "f").write_text("")
    assert refusal(lambda: files.make_directory(str(inside / "f"))).kind == Kind.INVALID_PARAMS
    os.symlink("a", inside / "link")
    assert files.make_directory(str(inside / "link")) is False


def test_no_folder_is_created_in_a_protected_place(inside: Path) -> None:
    (inside / "own").mkdir()
    files = Files([str(inside)], protected=[str(inside / "own")])
    calls: list[Callable[[], object]] = [
        lambda: files.make_directory(str(inside / "own" / "a")),
        lambda: files.make_directory(str(inside / "own" / "a" / "b"), parents=True),
        lambda: files.write_text(str(inside / "own" / "a" / "b"), "x", create_directories=True),
        lambda: files.write_bytes(str(inside / "own" / "f"), b"x"),
        lambda: files.write_many([(str(inside / "f"), "x"), (str(inside / "own" / "f"), "x")]),
        lambda: files.write_bytes(str(inside / "OWN"), b"x"),  # the same folder, where there is no case
    ]
    for call in calls:
        assert refusal(call).kind == Kind.ACCESS_DENIED
    assert os.listdir(inside) == ["own"]
    assert os.listdir(inside / "own") == []


# --- several files at once ----------------------------------------------------------------------------------------


def test_all_files_are_written_together(files: Files, inside: Path) -> None:
    (inside / "old").write_text("old")
    (inside / "old").chmod(0o640)
    os.link(inside / "old", inside / "other name")
    wrote = files.write_many(
        [(str(inside / "old"), "new"), (str(inside / "d" / "e"), b"\x00"), (str(inside / "d" / "f"), "ü")],
        create_directories=True,
    )
    assert wrote == 6
    assert (inside / "old").read_text() == "new"
    assert stat.S_IMODE((inside / "old").stat().st_mode) == 0o640
    assert (inside / "other name").read_text() == "old"
    assert sorted(os.listdir(inside)) == ["d", "old", "other name"]
    assert sorted(os.listdir(inside / "d")) == ["e", "f"]
    assert files.write_many([]) == 0


def snapshot(folder: Path) -> dict[str, tuple[str, int, int]]:
    return {
        str(path): (path.read_text() if path.is_file() else "", path.stat().st_mode, path.stat().st_ino)
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize(
    "bad",
    ["{in}/missing/f", "{in}/folder", "{in}/pipe", "{in}/../f", "relative", "{in}/old", "{in}/" + "n" * 300],
    ids=["no folder", "a folder", "a pipe", "outside", "relative", "twice", "long"],
)
def test_if_one_file_cannot_be_written_none_is_changed(files: Files, inside: Path, bad: str) -> None:
    (inside / "old").write_text("old")
    (inside / "folder").mkdir()
    os.mkfifo(inside / "pipe")
    before = snapshot(inside)
    with pytest.raises(ProtocolError):
        files.write_many(
            [
                (str(inside / "new"), "new"),
                (str(inside / "old"), "new"),
                (bad.replace("{in}", str(inside)), "new"),
                (str(inside / "last"), "new"),
            ]
        )
    assert snapshot(inside) == before
    assert os.listdir(inside.parent) == ["inside"]


def test_folders_created_for_a_failed_batch_are_removed(files: Files, inside: Path) -> None:
    (inside / "kept").mkdir()
    with pytest.raises(ProtocolError):
        files.write_many(
            [(f"{inside}/a/b/f", "x"), (f"{inside}/kept/c/f", "x"), (f"{inside}/../out/f", "x")],
            create_directories=True,
        )
    assert os.listdir(inside) == ["kept"]
    assert os.listdir(inside / "kept") == []


@pytest.mark.parametrize("failing", range(6))
@pytest.mark.parametrize("links", [True, False], ids=["with hard links", "without"])
def test_a_failure_in_the_middle_restores_everything(
    files: Files, inside: Path, monkeypatch: pytest.MonkeyPatch, failing: int, links: bool
) -> None:
    for name in ("one", "two", "three"):
        (inside / name).write_text(f"old {name}")
    before = {path: text for path, (text, *_) in snapshot(inside).items()}
    rename, count = os.rename, 0

    def breaks(old: str, new: str, **where: int) -> None:
        nonlocal count
        count += 1
        if count == failing + 1:
            raise OSError(errno.EIO, "broken")
        rename(old, new, **where)

    def none(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "rename", breaks)
    if not links:
        monkeypatch.setattr(os, "link", none)
    batch = [(f"{inside}/{name}", "new") for name in ("one", "fresh", "two", "three")]
    steps = 4 if links else 7
    if failing < steps:
        assert refusal(lambda: files.write_many(batch)).kind == Kind.INTERNAL_ERROR
        monkeypatch.undo()
        assert {path: text for path, (text, *_) in snapshot(inside).items()} == before
    else:
        files.write_many(batch)
        assert {path: text for path, (text, *_) in snapshot(inside).items()} == {path: "new" for path, _ in batch}


def test_a_full_disk_changes_no_file(files: Files, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (inside / "old").write_text("old")
    write, count = os.write, 0

    def full(fd: int, data: bytes) -> int:
        nonlocal count
        count += 1
        if count == 3:
            raise OSError(errno.ENOSPC, "full")
        return write(fd, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ProtocolError):
        files.write_many([(f"{inside}/{name}", "new") for name in ("a", "old", "b", "c")])
    monkeypatch.undo()
    assert {path: text for path, (text, *_) in snapshot(inside).items()} == {f"{inside}/old": "old"}


def test_a_file_created_meanwhile_is_not_overwritten(
    files: Files, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = PathTarget.stat
    seen: list[str] = []

    def appears(spot: PathTarget) -> os.stat_result | None:
        seen.append(spot.name)
        if seen.count("b") == 2:
            (inside / "b").write_text("theirs")
        return looked(spot)

    monkeypatch.setattr(PathTarget, "stat", appears)
    with pytest.raises(ProtocolError):
        files.write_many([(f"{inside}/a", "ours"), (f"{inside}/b", "ours")])
    assert {path.name: path.read_text() for path in inside.iterdir()} == {"b": "theirs"}


def test_a_batch_is_bounded(inside: Path) -> None:
    small = Files([str(inside)], max_bytes=10)
    assert refusal(lambda: small.write_many([(f"{inside}/a", b"123456"), (f"{inside}/b", b"12345")])).kind == (
        Kind.TOO_LARGE
    )
    many = [(f"{inside}/{number}", b"") for number in range(MAX_FILES + 1)]
    assert refusal(lambda: small.write_many(many)).kind == Kind.TOO_LARGE
    assert os.listdir(inside) == []
    before = len(os.listdir("/proc/self/fd"))
    assert small.write_many(many[:-1]) == 0
    assert len(os.listdir("/proc/self/fd")) == before
