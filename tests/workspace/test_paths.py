"""Paths: paths that end inside the roots are opened, and others are refused, through any links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.paths import MAX_LINKS, MAX_PATH, Roots, find_target, resolve_inside, with_target


def open_inside(roots: Roots, path: str, flags: int, *, base: str | None = None) -> int:
    return with_target(roots, path, lambda target: target.open(flags), base=base)


class Place:
    """A shared folder next to one that is not shared."""

    def __init__(self, tmp: Path) -> None:
        self.inside = tmp / "inside"
        self.outside = tmp / "outside"
        self.inside.mkdir()
        self.outside.mkdir()
        (self.inside / "file").write_text("in")
        (self.outside / "file").write_text("canary")
        self.roots = Roots([str(self.inside)])

    def read(self, path: str, base: str | None = None) -> str:
        fd = open_inside(self.roots, path, os.O_RDONLY, base=base)
        with open(fd) as file:
            return file.read()

    def link(self, name: str, target: str | Path) -> str:
        (self.inside / name).symlink_to(target)
        return str(self.inside / name)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def refusal(call: Callable[[], object]) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        call()
    return caught.value


def test_a_file_inside_is_opened_and_its_descriptor_is_not_inherited(place: Place) -> None:
    fd = open_inside(place.roots, str(place.inside / "file"), os.O_RDONLY)
    try:
        assert os.read(fd, 10) == b"in"
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    "path",
    [
        "{in}/./file",
        "{in}//file",
        "{in}/sub/../file",
        "{in}/sub/../sub/../file",
        "{in}/../inside/file",
        "{in}/sub/../../inside/./file",
        "{in}/../outside/../inside/file",
    ],
)
def test_a_path_with_detours_that_ends_inside_is_opened(place: Place, path: str) -> None:
    (place.inside / "sub").mkdir()
    assert place.read(path.replace("{in}", str(place.inside))) == "in"


@pytest.mark.item("004-55")
@pytest.mark.parametrize(
    "path",
    [
        "{out}/file",
        "/etc/passwd",
        "/",
        "{in}/..",
        "{in}/../outside/file",
        "{in}/sub/../../outside/file",
        "{in}/../../../../../../../../etc/passwd",
        "{in}2/file",
        "{out}",
    ],
)
def test_a_path_that_ends_outside_is_denied(place: Place, path: str) -> None:
    (place.inside / "sub").mkdir()
    Path(f"{place.inside}2").mkdir()
    path = path.replace("{in}", str(place.inside)).replace("{out}", str(place.outside))
    error = refusal(lambda: place.read(path))
    assert error.kind == Kind.ACCESS_DENIED
    assert str(place.inside) in error.message


@pytest.mark.parametrize("target", ["file", "./file", "sub/../file", "{in}/file", "../inside/file"])
def test_a_link_that_stays_inside_is_followed(place: Place, target: str) -> None:
    (place.inside / "sub").mkdir()
    assert place.read(place.link("link", target.replace("{in}", str(place.inside)))) == "in"


@pytest.mark.parametrize("target", ["{out}/file", "../outside/file", "/etc/passwd", "{out}/missing", "/dev/zero"])
def test_a_link_that_leads_outside_is_denied(place: Place, target: str) -> None:
    path = place.link("link", target.replace("{out}", str(place.outside)))
    assert refusal(lambda: place.read(path)).kind == Kind.ACCESS_DENIED


def test_a_folder_link_that_leads_outside_is_denied(place: Place) -> None:
    path = place.link("folder", place.outside)
    assert refusal(lambda: place.read(path + "/file")).kind == Kind.ACCESS_DENIED


def test_the_end_of_a_chain_of_links_decides(place: Place) -> None:
    place.link("c", "../outside/file")
    place.link("b", place.inside / "c")
    assert refusal(lambda: place.read(place.link("a", "b"))).kind == Kind.ACCESS_DENIED
    place.link("y", "file")
    assert place.read(place.link("x", "y")) == "in"


def test_going_up_from_a_linked_folder_goes_to_the_parent_of_its_target(place: Place) -> None:
    (place.inside / "deep" / "er").mkdir(parents=True)
    (place.inside / "deep" / "file").write_text("deep")
    path = place.link("link", "deep/er")
    assert place.read(path + "/../file") == "deep"


def test_a_cycle_of_links_is_an_error_and_a_long_chain_is_followed(place: Place) -> None:
    place.link("ring", "ring")
    assert refusal(lambda: place.read(str(place.inside / "ring"))).kind == Kind.INVALID_PARAMS
    place.link("l0", "file")
    for number in range(1, MAX_LINKS + 1):
        place.link(f"l{number}", f"l{number - 1}")
    assert place.read(str(place.inside / f"l{MAX_LINKS - 1}")) == "in"
    assert refusal(lambda: place.read(str(place.inside / f"l{MAX_LINKS}"))).kind == Kind.INVALID_PARAMS


def test_creating_through_a_dangling_link_works_inside_and_is_denied_outside(place: Place) -> None:
    flags = os.O_WRONLY | os.O_CREAT
    os.close(open_inside(place.roots, place.link("good", "new"), flags))
    assert (place.inside / "new").exists()
    bad = place.link("bad", place.outside / "new")
    assert refusal(lambda: open_inside(place.roots, bad, flags)).kind == Kind.ACCESS_DENIED
    assert not (place.outside / "new").exists()


def test_the_error_for_a_missing_path_has_its_uri(place: Place) -> None:
    error = refusal(lambda: place.read(f"{place.inside}/no such"))
    assert error.kind == Kind.RESOURCE_NOT_FOUND
    assert error.data == {"uri": f"file://{place.inside}/no%20such"}
    deeper = refusal(lambda: place.read(f"{place.inside}/none/file"))
    assert deeper.kind == Kind.RESOURCE_NOT_FOUND
    assert "create it first" in deeper.message


def test_a_file_is_not_a_folder(place: Place) -> None:
    for path in ("file/", "file/.", "file/x", "file/../file"):
        with pytest.raises(ProtocolError) as caught:
            place.read(f"{place.inside}/{path}")
        assert caught.value.kind == Kind.RESOURCE_NOT_FOUND


@pytest.mark.item("000-19", "001-09")
@pytest.mark.parametrize(
    "path", ["", "file", "./file", "../x", "~/x", "/a\0b", "/" + "x" * MAX_PATH, "/\ud800", "/" + "y" * 300]
)
def test_a_path_that_is_not_absolute_is_invalid(tmp_path: Path, path: str) -> None:
    error = refusal(lambda: open_inside(Roots(["/"]), path, os.O_RDONLY))
    assert error.kind == Kind.INVALID_PARAMS


@pytest.mark.item("004-55")
def test_a_relative_path_starts_at_a_base_and_cannot_leave_the_roots(place: Place) -> None:
    base = str(place.inside)
    (place.inside / "sub").mkdir()
    assert place.read("file", base) == "in"
    assert place.read("./sub/../file", f"{base}/.") == "in"
    assert refusal(lambda: place.read("../outside/file", base)).kind == Kind.ACCESS_DENIED
    assert refusal(lambda: place.read(str(place.outside / "file"), base)).kind == Kind.ACCESS_DENIED


def test_a_root_that_is_a_link_is_known_by_both_its_paths(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "alias").symlink_to("inside")
    place.roots = Roots([f"{tmp_path}/alias/"])
    assert place.roots.real_paths == (str(place.inside),)
    assert place.read(f"{tmp_path}/alias/file") == "in"
    assert place.read(f"{tmp_path}/inside/file") == "in"
    assert place.read(place.link("l", f"{tmp_path}/alias/file")) == "in"
    assert resolve_inside(place.roots, f"{tmp_path}/alias/file") == str(place.inside / "file")


def test_a_root_that_is_later_replaced_by_a_link_leads_nowhere(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.inside.rename(tmp_path / "moved")
    place.inside.symlink_to("outside")
    with pytest.raises(ProtocolError):
        place.read(str(place.inside / "file"))


def test_several_roots_may_link_to_each_other(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.roots = Roots([str(place.inside), str(place.outside)])
    assert place.read(place.link("over", "../outside/file")) == "canary"
    assert place.read(f"{place.inside}/../outside/file") == "canary"


def test_without_roots_everything_is_outside(place: Place) -> None:
    place.roots = Roots([])
    assert refusal(lambda: place.read(str(place.inside / "file"))).kind == Kind.ACCESS_DENIED


def test_the_whole_file_system_can_be_a_root(place: Place) -> None:
    place.roots = Roots(["/"])
    assert place.read(str(place.outside / "file")) == "canary"
    assert place.read(f"/../..{place.outside}/file") == "canary"
    assert resolve_inside(place.roots, "/") == "/"


def test_existing_and_missing_paths_have_a_canonical_path(place: Place) -> None:
    (place.inside / "sub").mkdir()
    folder = place.link("folder", "sub")
    inside = str(place.inside)
    assert resolve_inside(place.roots, f"{folder}/../file") == f"{inside}/file"
    assert resolve_inside(place.roots, f"{folder}/new") == f"{inside}/sub/new"
    assert resolve_inside(place.roots, f"{folder}/a//b/./c") == f"{inside}/sub/a/b/c"
    assert resolve_inside(place.roots, inside + "/") == inside
    assert refusal(lambda: resolve_inside(place.roots, f"{folder}/a/../../x")).kind == Kind.RESOURCE_NOT_FOUND
    out = place.link("out", place.outside)
    assert refusal(lambda: resolve_inside(place.roots, f"{out}/a/b")).kind == Kind.ACCESS_DENIED


def test_folders_are_created_only_with_the_option_and_only_inside(place: Place) -> None:
    with find_target(place.roots, f"{place.inside}/a/b/c", make_directories=True) as spot:
        assert (spot.name, spot.path) == ("c", f"{place.inside}/a/b/c")
    assert stat.S_ISDIR(os.stat(place.inside / "a" / "b").st_mode)
    out = place.link("out", place.outside / "made")
    error = refusal(lambda: find_target(place.roots, f"{out}/x", make_directories=True))
    assert error.kind == Kind.ACCESS_DENIED
    assert os.listdir(place.outside) == ["file"]


def test_no_descriptor_is_left_open(place: Place) -> None:
    place.link("out", place.outside)
    before = os.listdir("/dev/fd")
    for path in ("file", "none", "none/x", "out/x", "file/x", "../inside/file", ".", "out"):
        try:
            os.close(open_inside(place.roots, f"{place.inside}/{path}", os.O_RDONLY))
        except ProtocolError:
            pass
    assert len(os.listdir("/dev/fd")) == len(before)
