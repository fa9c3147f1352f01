"""Escapes: no link, and no change of a link meanwhile, leads outside the shared folder."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.files import Files
from dragoman.workspace.terminals import Terminals
from tests.workspace.attacks import CANARY, HARMLESS, OPENED, PATHS, Attack, Place, each

BOUND = 60.0

# Rounds of a race: enough that both sides of the door were met many times.
ROUNDS = 3000

NAMES = ["a", "b", "c"]

steps = st.sampled_from([*NAMES, *NAMES, "..", ".", ""])
relative = st.lists(steps, min_size=1, max_size=6).map("/".join)
anchored = st.tuples(st.sampled_from(["{in}", "{in}", "{out}", "{in}/../outside", ""]), relative).map("/".join)
targets = st.one_of(relative, anchored)
items = st.tuples(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join),
    st.one_of(st.just("folder"), st.just("file"), targets.map(lambda target: f"link:{target}")),
)


def build(inside: Path, tree: list[tuple[str, str]], spell: dict[str, str]) -> None:
    """Create a tree; skip entries that collide."""
    for name, kind in tree:
        place = inside / name
        # The tree is built by ordinary means, which follow links: nothing may be made outside.
        if not os.path.realpath(place.parent).startswith(str(inside)) or os.path.lexists(place):
            continue
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if kind == "folder":
                place.mkdir()
            elif kind == "file":
                place.write_text(f"inside {name}")
            elif target := spelled(kind.removeprefix("link:"), spell):
                place.symlink_to(target)
        except OSError:
            pass


def spelled(path: str, spell: dict[str, str]) -> str:
    for mark, place in spell.items():
        path = path.replace(mark, place)
    return path


def snapshot(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() if path.is_file() else "" for path in folder.rglob("*")}


@settings(max_examples=150)
@given(
    st.lists(items, max_size=12),
    st.lists(st.one_of(anchored, relative), min_size=1, max_size=8),
    st.booleans(),
)
def test_no_tree_of_links_leads_outside(tree: list[tuple[str, str]], paths: list[str], make: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(os.path.realpath(folder))
        inside, outside = top / "inside", top / "outside"
        for place in (inside, outside, outside / "a"):
            place.mkdir()
        for place in (outside / "b", outside / "a" / "c", top / "a"):
            place.write_text(CANARY)
        spell = {"{in}": str(inside), "{out}": str(outside)}
        build(inside, tree, spell)
        before = {**snapshot(outside), **{str(place): "" for place in top.iterdir()}}
        files = Files([str(inside)], base=str(inside))
        for path in (spelled(path, spell) for path in paths):
            real = os.path.realpath(os.path.join(inside, path))
            with suppress(ProtocolError):
                canonical = files.resolve(path)
                assert (canonical + "/").startswith(f"{inside}/")
                text = files.read_text(path)
                assert text.startswith(("inside", "written"))
                assert canonical == real
                assert Path(real).read_text() == text
            with suppress(ProtocolError):
                assert files.read_bytes(path).data.startswith((b"inside", b"written"))
            with suppress(ProtocolError):
                files.list(path, recursive=True)
                assert (real + "/").startswith(f"{inside}/")
            with suppress(ProtocolError):
                files.write_text(path, "written", create_directories=make)
                assert files.read_text(path) == "written"
            with suppress(ProtocolError):
                files.make_directory(path, parents=make)
            with suppress(ProtocolError):
                files.write_many([(path, "written"), (f"{path}.more", "written")], create_directories=make)
        assert {**snapshot(outside), **{str(place): "" for place in top.iterdir()}} == before
        assert (top / "a").read_text() == CANARY


# --- each attack on each operation --------------------------------------------------------------------------------


async def _watched(files: Files, path: str) -> str:
    watch = await files.watch(path)
    watch.close()
    return watch.path


OPERATIONS: dict[str, Callable[[Files, str], object]] = {
    "resolve": lambda files, path: files.resolve(path),
    "read": lambda files, path: files.read_text(path),
    "read bytes": lambda files, path: files.read_bytes(path).data,
    "list": lambda files, path: files.list(path, recursive=True),
    "watch": lambda files, path: asyncio.run(_watched(files, path)),
    "write": lambda files, path: files.write_text(path, "written"),
    "write in new folders": lambda files, path: files.write_text(path, "written", create_directories=True),
    "write a new file": lambda files, path: files.write_text(path, "written", overwrite=False),
    "write bytes": lambda files, path: files.write_bytes(path, b"written"),
    "make a folder": lambda files, path: files.make_directory(path),
    "make folders": lambda files, path: files.make_directory(path, parents=True),
    "write several": lambda files, path: files.write_many([(f"{_INSIDE[0]}/other", "written"), (path, "written")]),
    "write several in new folders": lambda files, path: files.write_many(
        [(f"{_INSIDE[0]}/other", "written"), (path, "written")], create_directories=True
    ),
}
_INSIDE: list[str] = []

# What says where a path would lead does nothing; the rest of the system does not ask it whether it may.
ASKS_ONLY = {"resolve"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place.make(Path(os.path.realpath(tmp_path)))
    _INSIDE[:] = [str(made.inside)]
    yield made
    for fd in OPENED:
        os.close(fd)
    OPENED.clear()


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.item("004-55", "000-20")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("attack", [pytest.param(attack, id=name) for name, attack in each(PATHS)])
def test_no_attack_leads_outside(place: Place, attack: Attack, operation: str) -> None:
    path = attack.prepare(place)
    before, inside = place.beyond(), names(place.inside)
    with suppress(ProtocolError):
        result = OPERATIONS[operation](Files([str(place.inside)]), path)
        assert operation in ASKS_ONLY, f"{operation} was not refused: {result}"
        assert str(result).startswith(f"{place.inside}/")
    assert place.beyond() == before
    if "in new folders" not in operation and operation != "make folders":
        assert names(place.inside) == inside  # refused is refused: not half, and no file left behind


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("name", "attack"), [pytest.param(*row, id=row[0]) for row in each(HARMLESS)])
def test_paths_that_stay_inside_change_nothing_else(place: Place, name: str, attack: Attack, operation: str) -> None:
    path = attack.prepare(place)
    before = place.beyond()
    with suppress(ProtocolError):
        result = OPERATIONS[operation](Files([str(place.inside)]), path)
        # A second name of a file is that file: reading it is allowed, whoever made the name could read it too.
        assert "hard" in name or CANARY not in str(result)
    assert place.beyond() == before
    assert not any(".dragoman" in left for left in names(place.inside))


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/full", "/dev/random", "/dev/tty"])
def test_a_device_is_refused_even_if_devices_are_inside_the_roots(path: str) -> None:
    files = Files(["/dev"])
    calls: list[Callable[[], object]] = [
        lambda: files.read_text(path),
        lambda: files.read_bytes(path),
        lambda: files.write_text(path, "x"),
        lambda: files.write_bytes(path, b"x"),
        lambda: files.write_many([(path, "x")]),
        lambda: files.make_directory(path),
        lambda: files.list(path),
    ]
    for call in calls:
        with pytest.raises(ProtocolError):
            call()


# --- the folders themselves ---------------------------------------------------------------------------------------


def test_a_root_that_is_swapped_for_a_link_is_not_followed(place: Place) -> None:
    files = Files([str(place.inside)])
    os.rename(place.inside, place.top / "moved")
    os.symlink(place.outside, place.inside)
    before = place.beyond()
    for operation, call in OPERATIONS.items():
        for path in (f"{place.inside}/file", f"{place.inside}/sub/file", str(place.inside)):
            with suppress(ProtocolError):
                result = call(files, path)
                assert operation in ASKS_ONLY, operation
                assert CANARY not in str(result)
    assert place.beyond() == before


@pytest.mark.parametrize(
    ("roots", "path"),
    [
        (["{in}/sub"], "{in}/file"),
        (["{in}/sub"], "{in}/sub/../file"),
        (["{in}/sub", "{top}/inside-too"], "{in}/file"),
        (["{in}/"], "{top}/inside-too/file"),
        (["{in}/sub/.."], "{top}/file"),
        (["{in}/here"], "{out}/file"),
        (["{in}/here"], "{in}/here/../../outside/file"),
        ([], "{in}/file"),
        (["{in}/nowhere"], "{in}/nowhere/../file"),
    ],
)
def test_only_paths_below_a_root_are_shared(place: Place, roots: list[str], path: str) -> None:
    os.symlink("sub", place.inside / "here")
    files = Files([place.spelled(root) for root in roots])
    before, inside = place.beyond(), names(place.inside)
    for operation, call in OPERATIONS.items():
        if "several" in operation:
            continue  # their other file is outside of these roots
        with pytest.raises(ProtocolError):
            call(files, place.spelled(path))
    assert place.beyond() == before
    assert names(place.inside) == inside


def test_the_current_directory_is_irrelevant(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.outside)
    files = Files([str(place.inside)])
    based = Files([str(place.inside)], base=str(place.inside))
    before = place.beyond()
    for path in ("file", "./file", "sub/file", "new", ".", ""):
        for operation, call in OPERATIONS.items():
            with pytest.raises(ProtocolError) as caught:
                call(files, path)
            assert caught.value.kind == Kind.INVALID_PARAMS, operation
            with suppress(ProtocolError):
                assert CANARY not in str(call(based, path))
    assert place.beyond() == before


# --- where a command starts ---------------------------------------------------------------------------------------


def bounded(work: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(BOUND):
            await work

    asyncio.run(main())


@pytest.mark.parametrize("pty", [False, True], ids=["pipes", "pty"])
@pytest.mark.parametrize(
    "attack",
    [
        Attack("{in}/.."),
        Attack("{in}/sub/../../outside"),
        Attack("{out}"),
        Attack("/"),
        Attack("{top}/inside-too"),
        Attack("{in}/link", {"link": "{out}"}),
        Attack("{in}/link/sub", {"link": "../outside"}),
        Attack("{in}/a", {"a": "b", "b": ".."}),
        Attack("{in}/link", {"link": "/proc/self/cwd"}),
        Attack("{in}/link", {"link": "{out}/missing"}),
        Attack("{in}/file"),
        Attack("{in}/missing"),
        Attack("sub"),
        Attack("."),
        Attack("{top}/INSIDE"),
        Attack("{in}/" + "sub/../" * 500 + "../outside"),
        Attack("{in}/" + "n" * 300),
    ],
)
async def test_no_command_starts_outside(place: Place, attack: Attack, pty: bool) -> None:
    path = attack.prepare(place)
    before, inside = place.beyond(), names(place.inside)

    terminals = Terminals([str(place.inside)])
    with pytest.raises(ProtocolError):
        await terminals.create("touch", ["started"], path, pty=pty)
    await terminals.close()
    assert place.beyond() == before
    assert names(place.inside) == inside


# --- races --------------------------------------------------------------------------------------------------------

AT_FDCWD, RENAME_EXCHANGE = -100, 2
RENAME = getattr(ctypes.CDLL(None), "renameat2", None)


def exchange(one: Path, other: Path) -> None:
    """Swap two names atomically, or through a third name if the system cannot."""
    if RENAME is None or RENAME(AT_FDCWD, bytes(one), AT_FDCWD, bytes(other), RENAME_EXCHANGE) != 0:
        os.rename(one, f"{one}.away")
        os.rename(other, one)
        os.rename(f"{one}.away", other)


@contextmanager
def swapping(swap: Callable[[], None]) -> Iterator[None]:
    """Swap the names on a thread, as fast as possible."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            swap()

    swapper = threading.Thread(target=run)
    swapper.start()
    try:
        yield
    finally:
        stop.set()
        swapper.join(10)


def rounds_until(count: int, seen: set[str], wanted: Collection[str]) -> Iterator[None]:
    """Count rounds, and go on for a while until each wanted text is a part of what was seen.

    A swap takes its turn with the calls, so on a loaded machine the door may be shut at every look for a while.
    """
    deadline = time.monotonic() + BOUND
    done = 0
    while done < count or not all(any(each in result for result in seen) for each in wanted):
        assert time.monotonic() < deadline or done < count, f"saw {seen}, and not all of {wanted}"
        yield
        done += 1


def attempts(rounds: int, *calls: Callable[[], object], wanted: Collection[str]) -> set[str]:
    """Call these repeatedly until all that is wanted was seen; return the results and the kinds of errors."""
    seen: set[str] = set()
    for _ in rounds_until(rounds, seen, wanted):
        for call in calls:
            try:
                seen.add(str(call()))
            except ProtocolError as error:
                seen.add(error.kind)
    return seen


@pytest.fixture
def door(place: Place) -> Callable[[], None]:
    """`inside/door` alternates between a folder inside and a link outside."""
    (place.inside / "door").mkdir()
    (place.inside / "door" / "file").write_text("inside")
    os.symlink(place.outside, place.inside / "link")
    return lambda: exchange(place.inside / "door", place.inside / "link")


def real(place: Place) -> Path:
    """Return which of the two is the folder, after the swapping."""
    return next(path for path in (place.inside / "door", place.inside / "link") if not path.is_symlink())


def test_a_folder_that_is_swapped_for_a_link_is_never_read_outside(place: Place, door: Callable[[], None]) -> None:
    files = Files([str(place.inside)])
    path = f"{place.inside}/door/file"
    with swapping(door):
        seen = attempts(
            ROUNDS,
            lambda: files.read_text(path),
            lambda: files.read_bytes(path).data.decode(),
            lambda: files.read_text(f"{place.inside}/door/../door/file"),
            wanted=("inside", Kind.ACCESS_DENIED),
        )
    assert CANARY not in seen
    assert seen == {"inside", Kind.ACCESS_DENIED, *(seen & {Kind.RESOURCE_NOT_FOUND, Kind.INVALID_PARAMS})}


def test_a_folder_that_is_swapped_for_a_link_is_never_written_outside(place: Place, door: Callable[[], None]) -> None:
    files = Files([str(place.inside)])
    path = f"{place.inside}/door/file"
    before = place.beyond()
    with swapping(door):
        attempts(
            ROUNDS,
            lambda: files.write_text(path, "inside"),
            lambda: files.write_bytes(path, b"inside"),
            lambda: files.write_text(f"{place.inside}/door/new/deep", "inside", create_directories=True),
            wanted=("WriteResult", Kind.ACCESS_DENIED),
        )
    assert place.beyond() == before
    assert not any(".dragoman" in left for left in names(place.inside))


def test_a_folder_that_is_swapped_for_a_link_is_never_listed_outside(place: Place, door: Callable[[], None]) -> None:
    (place.outside / "secret").write_text("")
    (place.inside / "door" / "harmless").write_text("")
    files = Files([str(place.inside)])
    with swapping(door):
        seen = attempts(
            ROUNDS,
            lambda: [entry.name for entry in files.list(f"{place.inside}/door").entries],
            lambda: [entry.name for entry in files.list(str(place.inside), recursive=True).entries],
            wanted=("door/harmless", Kind.ACCESS_DENIED),
        )
    assert not any("secret" in result for result in seen)


def test_a_folder_that_is_swapped_for_a_link_never_has_folders_made_outside(
    place: Place, door: Callable[[], None]
) -> None:
    files = Files([str(place.inside)])
    before = place.beyond()
    number = itertools.count()
    with swapping(door):
        attempts(
            ROUNDS,
            lambda: files.make_directory(f"{place.inside}/door/{next(number)}"),
            lambda: files.make_directory(f"{place.inside}/door/{next(number)}/a", parents=True),
            wanted=("True", Kind.ACCESS_DENIED),
        )
    assert place.beyond() == before


def test_a_batch_into_a_folder_that_is_swapped_for_a_link_is_inside_and_whole(
    place: Place, door: Callable[[], None]
) -> None:
    files = Files([str(place.inside)])
    before = place.beyond()
    wrote = 0

    def write() -> int:
        nonlocal wrote
        count = files.write_many([(f"{place.inside}/{name}", f"{wrote + 1}") for name in ("one", "door/two", "three")])
        wrote += 1
        return count

    with swapping(door):
        attempts(ROUNDS, write, wanted=("3", Kind.ACCESS_DENIED))
    assert place.beyond() == before
    last = [place.inside / "one", real(place) / "two", place.inside / "three"]
    assert [path.read_text() for path in last] == [str(wrote)] * 3
    assert not any(".dragoman" in left for left in names(place.inside))


def test_a_file_that_is_swapped_for_a_link_is_never_outside(place: Place) -> None:
    target = place.inside / "target"
    target.write_text("inside")
    os.symlink(place.outside / "file", place.inside / "link")
    files = Files([str(place.inside)])
    before = place.beyond()
    with swapping(lambda: exchange(target, place.inside / "link")):
        seen = attempts(
            ROUNDS // 3,  # four calls each; a file that is replaced goes to the disk
            lambda: files.read_text(str(target)),
            lambda: files.read_bytes(str(target)).data.decode(),
            lambda: files.write_text(str(target), "inside"),
            lambda: files.write_many([(str(target), "inside"), (f"{place.inside}/other", "inside")]),
            wanted=("inside",),
        )
    assert CANARY not in seen
    assert place.beyond() == before
    assert not any(".dragoman" in left for left in names(place.inside))


def test_a_folder_that_is_moved_out_and_in_again_is_never_used_outside(place: Place) -> None:
    """The '..' of a folder that was moved out leads outside: going up must stay inside."""
    deep = place.inside / "deep"
    (deep / "er").mkdir(parents=True)
    (deep / "er" / "file").write_text("inside")
    files = Files([str(place.inside)])

    def swap() -> None:
        os.rename(deep, place.outside / "deep")
        os.rename(place.outside / "deep", deep)

    with swapping(swap):
        seen = attempts(
            ROUNDS,
            lambda: files.read_text(f"{deep}/er/../../file"),
            lambda: files.read_text(f"{deep}/er/file"),
            lambda: files.write_text(f"{deep}/er/../../new", "inside"),
            wanted=("inside",),
        )
    assert CANARY not in seen
    assert sorted(os.listdir(place.outside)) == ["file", "sub"]
    assert (place.outside / "file").read_text() == CANARY


def test_no_command_starts_in_a_folder_that_is_swapped_for_a_link(place: Place, door: Callable[[], None]) -> None:
    before = place.beyond()

    async def main() -> None:
        terminals = Terminals([str(place.inside)])
        seen: set[str] = set()
        for _ in rounds_until(300, seen, ("started", Kind.ACCESS_DENIED)):  # each is a process
            try:
                terminal = await terminals.create("touch", ["started"], f"{place.inside}/door")
                await terminal.wait()
                await terminal.release()
                seen.add("started")
            except ProtocolError as error:
                seen.add(error.kind)
        await terminals.close()

    with swapping(door):
        asyncio.run(main())
    assert place.beyond() == before
    assert (real(place) / "started").exists()
