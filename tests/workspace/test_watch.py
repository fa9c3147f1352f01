"""Watches: changes in a folder are reported soon, once for each path, and never from outside."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace import snapshot, watch
from dragoman.workspace.files import Files
from dragoman.workspace.paths import Roots
from dragoman.workspace.snapshot import DirectorySnapshot, WatchChange, merge_changes
from dragoman.workspace.watch import DirectoryWatch

BOUND = 20.0

# None: inotify; a number: seconds between two polls.
WAYS = pytest.mark.parametrize("interval", [None, 0.01], ids=["inotify", "polling"])


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(BOUND):
            await work

    asyncio.run(bounded())


async def changes_until(seen: DirectoryWatch, done: Callable[[dict[str, str]], bool]) -> dict[str, str]:
    """Return the merged changes as soon as `done` accepts them."""
    found: dict[str, str] = {}
    while not done(found):
        batch = await seen.next_changes()
        assert batch, "the watch ended too early"
        merge_changes(found, batch)
    return found


@WAYS
async def test_created_modified_and_deleted_files_are_reported(tmp_path: Path, interval: float | None) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "gone").write_text("gone")
    seen = await Files([str(tmp_path)]).watch(str(tmp_path), interval=interval)
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("changed")
    (tmp_path / "gone").unlink()
    found = await changes_until(seen, lambda found: len(found) == 3)
    assert {os.path.basename(path): kind for path, kind in found.items()} == {
        "new": "created",
        "old": "modified",
        "gone": "deleted",
    }
    assert all(path.startswith(str(tmp_path)) for path in found)
    seen.close()
    assert await seen.next_changes() == []


@WAYS
async def test_a_recursive_watch_includes_folders_created_later(tmp_path: Path, interval: float | None) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    seen = await Files([str(tmp_path)]).watch(str(tmp_path), True, interval=interval)
    (tmp_path / "a" / "b" / "deep").write_text("1")
    await changes_until(seen, lambda found: f"{tmp_path}/a/b/deep" in found)
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "one").write_text("1")
    found = await changes_until(seen, lambda found: f"{tmp_path}/fresh/one" in found)
    assert found[f"{tmp_path}/fresh"] == "created"
    (tmp_path / "fresh" / "two").write_text("2")
    await changes_until(seen, lambda found: f"{tmp_path}/fresh/two" in found)
    os.rename(tmp_path / "fresh", tmp_path / "a" / "moved")
    found = await changes_until(seen, lambda found: f"{tmp_path}/a/moved/two" in found and f"{tmp_path}/fresh" in found)
    assert found[f"{tmp_path}/fresh"] == found[f"{tmp_path}/fresh/one"] == "deleted"
    assert found[f"{tmp_path}/a/moved"] == found[f"{tmp_path}/a/moved/one"] == "created"
    (tmp_path / "a" / "moved" / "two").write_text("again")
    found = await changes_until(seen, lambda found: f"{tmp_path}/a/moved/two" in found)
    seen.close()


@WAYS
async def test_a_watch_is_not_recursive_by_default(tmp_path: Path, interval: float | None) -> None:
    (tmp_path / "a").mkdir()
    seen = await Files([str(tmp_path)]).watch(str(tmp_path), interval=interval)
    (tmp_path / "a" / "inner").write_text("1")
    (tmp_path / "last").write_text("1")
    assert await changes_until(seen, bool) == {f"{tmp_path}/last": "created"}
    seen.close()


@WAYS
async def test_a_single_file_can_be_watched_and_created_again(tmp_path: Path, interval: float | None) -> None:
    file = tmp_path / "file"
    file.write_text("1")
    seen = await Files([str(tmp_path)]).watch(str(file), interval=interval)
    (tmp_path / "other").write_text("1")
    file.unlink()
    assert await changes_until(seen, bool) == {str(file): "deleted"}
    file.write_text("2")
    assert await changes_until(seen, bool) == {str(file): "created"}
    seen.close()


@WAYS
async def test_a_watch_ends_when_its_folder_is_deleted(tmp_path: Path, interval: float | None) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("1")
    seen = await Files([str(tmp_path)]).watch(str(folder), True, interval=interval)
    (folder / "file").unlink()
    folder.rmdir()
    found = await changes_until(seen, lambda found: str(folder) in found)
    assert found == {str(folder): "deleted", f"{folder}/file": "deleted"}
    assert await seen.next_changes() == []
    assert [batch async for batch in seen] == []


@WAYS
async def test_a_folder_that_leaves_the_roots_is_not_followed(tmp_path: Path, interval: float | None) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for place in (inside, inside / "a", outside):
        place.mkdir()
    (inside / "a" / "file").write_text("1")
    seen = await Files([str(inside)]).watch(str(inside), True, interval=interval)
    alone = await Files([str(inside)]).watch(str(inside / "a"), True, interval=interval)
    os.rename(inside / "a", outside / "a")
    (outside / "a" / "secret").write_text("canary")
    (inside / "last").write_text("1")
    found = await changes_until(seen, lambda found: f"{inside}/last" in found and f"{inside}/a" in found)
    assert found == {f"{inside}/a": "deleted", f"{inside}/a/file": "deleted", f"{inside}/last": "created"}
    assert await changes_until(alone, lambda found: f"{inside}/a" in found) == {
        f"{inside}/a": "deleted",
        f"{inside}/a/file": "deleted",
    }
    assert await alone.next_changes() == []
    seen.close()


@WAYS
async def test_a_link_to_a_folder_outside_is_an_entry_and_is_not_followed(
    tmp_path: Path, interval: float | None
) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    os.symlink(outside, inside / "old")
    seen = await Files([str(inside)]).watch(str(inside), True, interval=interval)
    os.symlink(outside, inside / "new")
    (outside / "secret").write_text("canary")
    (inside / "last").write_text("1")
    found = await changes_until(seen, lambda found: f"{inside}/last" in found and f"{inside}/new" in found)
    assert found == {f"{inside}/new": "created", f"{inside}/last": "created"}
    seen.close()


def test_a_written_file_is_reported_even_if_its_state_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    looked = DirectorySnapshot(Roots([str(tmp_path)]), str(tmp_path), None, False)
    looked.begin()
    assert looked.find_changes([()]) == []
    assert looked.find_changes([()], [((), "file")]) == [WatchChange(f"{tmp_path}/file", "modified")]
    assert looked.find_changes([()], [((), "unknown")]) == []


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        (["created", "modified"], "created"),
        (["created", "deleted"], None),
        (["deleted", "created"], "modified"),
        (["modified", "deleted"], "deleted"),
        (["modified", "modified"], "modified"),
        (["created", "deleted", "created"], "created"),
    ],
)
def test_unread_changes_are_merged(changes: list[str], left: str | None) -> None:
    waiting: dict[str, str] = {}
    for kind in changes:
        merge_changes(waiting, [WatchChange("/p", kind)])
    assert waiting == ({} if left is None else {"/p": left})


async def test_many_changes_come_in_bounded_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MAX_CHANGES", 10)

    seen = await Files([str(tmp_path)]).watch(str(tmp_path))
    for number in range(35):
        (tmp_path / str(number)).write_text("1")
    found: dict[str, str] = {}
    while len(found) < 35:
        batch = await seen.next_changes()
        assert 0 < len(batch) <= 10
        merge_changes(found, batch)
    seen.close()


async def test_a_tree_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MAX_NAMES", 5)
    for number in range(6):
        (tmp_path / str(number)).write_text("")

    with pytest.raises(ProtocolError) as caught:
        await Files([str(tmp_path)]).watch(str(tmp_path))
    assert caught.value.kind == Kind.TOO_LARGE


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("../outside", Kind.ACCESS_DENIED),
        ("link", Kind.ACCESS_DENIED),
        ("missing", Kind.RESOURCE_NOT_FOUND),
        ("missing/deeper", Kind.RESOURCE_NOT_FOUND),
    ],
)
async def test_a_path_outside_or_missing_cannot_be_watched(tmp_path: Path, path: str, kind: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside").mkdir()
    os.symlink(tmp_path / "outside", inside / "link")

    with pytest.raises(ProtocolError) as caught:
        await Files([str(inside)]).watch(f"{inside}/{path}")
    assert caught.value.kind == kind


async def test_a_watch_polls_if_inotify_has_no_more_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.workspace.inotify._MASK", 0)  # no watch can be added
    monkeypatch.setattr(watch, "POLL_INTERVAL", 0.01)

    seen = await Files([str(tmp_path)]).watch(str(tmp_path))
    (tmp_path / "new").write_text("1")
    assert await changes_until(seen, bool) == {f"{tmp_path}/new": "created"}
    seen.close()


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)

    async def main() -> None:
        for _ in range(3):
            seen = await Files([str(tmp_path)]).watch(str(tmp_path), True)
            (tmp_path / "a" / "file").write_text("1")
            await seen.next_changes()
            seen.close()
            await seen.next_changes()

    run(main())  # threads and selectors of the first loop stay; count after it
    before = len(os.listdir("/proc/self/fd"))
    run(main())
    assert len(os.listdir("/proc/self/fd")) == before
