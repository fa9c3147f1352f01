"""Escapes: whatever links there are, and however they change meanwhile, nothing outside is touched."""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import ProtocolError
from dragoman.workspace.files import Files

CANARY = "canary"
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
    """Make what can be made of a tree; what collides is left out."""
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
                files.write_text(path, "written", create_directories=make)
                assert files.read_text(path) == "written"
        assert {**snapshot(outside), **{str(place): "" for place in top.iterdir()}} == before
        assert (top / "a").read_text() == CANARY


def test_a_folder_that_is_swapped_for_a_link_all_the_time_never_leads_outside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, inside / "real", outside):
        folder.mkdir()
    (inside / "real" / "file").write_text("inside")
    (outside / "file").write_text(CANARY)
    os.symlink(outside, inside / "link")
    files = Files([str(inside)])
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for name in ("real", "link"):
                os.rename(inside / name, inside / "door")
                os.rename(inside / "door", inside / name)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for _ in range(3000):
            for call in (
                lambda: files.read_text(f"{inside}/door/file"),
                lambda: files.write_text(f"{inside}/door/file", "inside"),
                lambda: files.read_text(f"{inside}/door/../real/file"),
            ):
                try:
                    seen.add(call())
                except ProtocolError as error:
                    seen.add(error.kind)
    finally:
        stop.set()
        swapper.join(10)
    assert CANARY not in seen
    assert "inside" in seen, "the door was never open: the test shows nothing"
    assert (outside / "file").read_text() == CANARY
    assert os.listdir(outside) == ["file"]


def test_a_file_that_is_swapped_for_a_link_all_the_time_never_leads_outside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    (outside / "file").write_text(CANARY)
    files = Files([str(inside)])
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.symlink(outside / "file", inside / "next")
            os.rename(inside / "next", inside / "file")
            (inside / "next").write_text("inside")
            os.rename(inside / "next", inside / "file")

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for _ in range(3000):
            try:
                seen.add(files.read_text(f"{inside}/file"))
                files.write_text(f"{inside}/file", "inside")
            except ProtocolError as error:
                seen.add(error.kind)
    finally:
        stop.set()
        swapper.join(10)
    assert CANARY not in seen
    assert "inside" in seen
    assert (outside / "file").read_text() == CANARY
