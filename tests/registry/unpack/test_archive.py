"""Archives are unpacked by rule: hostile ones are refused and leave nothing outside; good ones keep bits and links."""

from __future__ import annotations

import io
import os
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.registry.fault import RegistryFault
from dragoman.registry.platforms import elf_interpreter
from dragoman.registry.unpack import archive, names, writer
from dragoman.registry.unpack.archive import unpack

Member = tuple[str, dict[str, Any], bytes]


def tar_of(*members: Member, mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for name, changes, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in changes.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def file(name: str, data: bytes = b"x", **changes: Any) -> Member:
    return name, changes, data


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Member:
    return name, {"type": kind, "linkname": target}, b""


def zip_of(*members: tuple[str, int, bytes], prefix: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, mode, data in members:
            info = zipfile.ZipInfo(name)
            info.filename = name
            info.create_system = 3
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(info, data)
    return prefix + buffer.getvalue()


def patched(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new)


def overlapping_zip() -> bytes:
    """Two names in the directory for the bytes of one member."""
    data = zip_of(("a", 0o100644, b"x" * 50))
    at = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    row = data[at:end]
    tail = bytearray(data[end:])
    struct.pack_into("<HHI", tail, 8, 2, 2, len(row) * 2)
    return data[:at] + row + row.replace(b"a", b"a") + bytes(tail)


def encrypted_zip() -> bytes:
    data = bytearray(zip_of(("a", 0o100644, b"x")))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    return bytes(data)


def nul_zip() -> bytes:
    return patched(zip_of(("cmdXevil", 0o100644, b"x")), b"cmdXevil", b"cmd\0evil")


DEEP = "/".join("d" for _ in range(names.MAX_DEPTH + 1))
SLASH_ZIP = zip_of(("a/b", 0o100644, b"x"))
OK = file("cmd", b"#!/bin/sh\n", mode=0o755)

HOSTILE: dict[str, Callable[[], bytes]] = {
    "tar: parent": lambda: tar_of(OK, file("../evil")),
    "tar: parent inside": lambda: tar_of(OK, file("a/../../evil")),
    "tar: absolute": lambda: tar_of(OK, file("/tmp/evil")),
    "tar: dot part": lambda: tar_of(OK, file("a/./b/../c")),
    "tar: empty part": lambda: tar_of(OK, file("a//b")),
    "tar: backslash": lambda: tar_of(OK, file("..\\evil")),
    "tar: drive": lambda: tar_of(OK, file("C:/evil")),
    "tar: long part": lambda: tar_of(OK, file("a" * 256)),
    "tar: long name": lambda: tar_of(OK, file("/".join(["a" * 100] * 11))),
    "tar: deep": lambda: tar_of(OK, file(f"{DEEP}/x")),
    "tar: not UTF-8": lambda: tar_of(OK, file("caf\udce9")),
    "tar: twice": lambda: tar_of(OK, file("a"), file("a", b"other")),
    "tar: case": lambda: tar_of(OK, file("Read"), file("read")),
    "tar: case of a folder": lambda: tar_of(OK, file("Dir/a"), file("dir/b")),
    "tar: Unicode form": lambda: tar_of(OK, file("caf\u00e9"), file("cafe\u0301")),
    "tar: below a file": lambda: tar_of(OK, file("a"), file("a/b")),
    "tar: link out": lambda: tar_of(OK, link("a", "../outside")),
    "tar: absolute link": lambda: tar_of(OK, link("a", "/etc/passwd")),
    "tar: below a link": lambda: tar_of(OK, link("a", "."), file("a/b")),
    "tar: write through a link": lambda: tar_of(OK, link("a", "/tmp"), file("a/evil")),
    "tar: link over a file": lambda: tar_of(OK, file("a"), link("a", "b")),
    "tar: link through a link": lambda: tar_of(OK, file("d/e/f"), link("up", "d/e/.."), link("out", "up/../../x")),
    "tar: links in a circle": lambda: tar_of(OK, link("a", "b"), link("b", "a")),
    "tar: long link": lambda: tar_of(OK, link("a", "/".join(["b"] * 3000) + "/../" * 4000 + "x")),
    "tar: empty link": lambda: tar_of(OK, link("a", "")),
    "tar: hard link out": lambda: tar_of(OK, link("a", "../../etc/passwd", tarfile.LNKTYPE)),
    "tar: hard link to nothing": lambda: tar_of(OK, link("a", "later", tarfile.LNKTYPE), file("later")),
    "tar: hard link to a link": lambda: tar_of(OK, link("a", "cmd"), link("b", "a", tarfile.LNKTYPE)),
    "tar: character device": lambda: tar_of(OK, ("a", {"type": tarfile.CHRTYPE}, b"")),
    "tar: block device": lambda: tar_of(OK, ("a", {"type": tarfile.BLKTYPE}, b"")),
    "tar: pipe": lambda: tar_of(OK, ("a", {"type": tarfile.FIFOTYPE}, b"")),
    "tar: huge header": lambda: tar_of(OK, ("a", {"pax_headers": {"comment": "x" * 8_000_000}}, b"")),
    "tar: truncated": lambda: tar_of(OK, file("a", b"x" * 50_000))[:-200],
    "zip: parent": lambda: zip_of(("cmd", 0o100755, b"#!"), ("../evil", 0o100644, b"x")),
    "zip: absolute": lambda: zip_of(("/tmp/evil", 0o100644, b"x")),
    "zip: backslash": lambda: patched(SLASH_ZIP, b"a/b", b"a\\b"),
    "zip: link out": lambda: zip_of(("cmd", 0o100755, b"#!"), ("a", 0o120777, b"../../x")),
    "zip: absolute link": lambda: zip_of(("cmd", 0o100755, b"#!"), ("a", 0o120777, b"/etc")),
    "zip: below a link": lambda: zip_of(("a", 0o120777, b"."), ("a/b", 0o100644, b"x")),
    "zip: twice": lambda: patched(zip_of(("a", 0o100644, b"x"), ("b", 0o100644, b"y")), b"b", b"a"),
    "zip: case": lambda: zip_of(("A", 0o100644, b"x"), ("a", 0o100644, b"y")),
    "zip: device": lambda: zip_of(("a", 0o020644, b"")),
    "zip: encrypted": encrypted_zip,
    "zip: zero byte": nul_zip,
    "zip: data before it": lambda: zip_of(("cmd", 0o100755, b"#!"), prefix=b"PK\x03\x04junk" + b"x" * 100),
    "zip: overlapping members": overlapping_zip,
    "no archive": lambda: b"<html>not found</html>",
    "empty": lambda: b"",
    "no command": lambda: tar_of(file("other")),
    "a command that is a folder": lambda: tar_of(file("cmd/x")),
}


@pytest.mark.item("RG-11")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing_outside(name: str, tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(HOSTILE[name]())
    folder = tmp_path / "a" / "b" / "files"
    folder.mkdir(parents=True)
    with pytest.raises(RegistryFault) as caught:
        unpack(str(tmp_path / "archive"), str(folder), "cmd")
    assert caught.value.why == "archive"
    assert sorted(os.listdir(tmp_path)) == ["a", "archive"]
    assert os.listdir(tmp_path / "a") == ["b"]
    assert os.listdir(tmp_path / "a" / "b") == ["files"]
    assert not os.path.exists("/tmp/evil")


def test_there_are_at_least_forty_hostile_archives() -> None:
    assert len(HOSTILE) >= 40


@pytest.mark.item("RG-11")
@pytest.mark.parametrize("form", ["tar", "zip"])
def test_a_bomb_ends_at_the_bound(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RATIO_FREE", 1000)
    zeros = b"\0" * 3_000_000
    data = tar_of(OK, file("a", zeros)) if form == "tar" else zip_of(("cmd", 0o100755, b"#!"), ("a", 0o100644, zeros))
    (tmp_path / "archive").write_bytes(data)
    (tmp_path / "files").mkdir()
    with pytest.raises(RegistryFault, match="unpacks to more than"):
        unpack(str(tmp_path / "archive"), str(tmp_path / "files"), "cmd")
    assert sum(path.stat().st_size for path in (tmp_path / "files").iterdir()) <= len(data) * writer.MAX_RATIO


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MAX_MEMBERS", 5)
    (tmp_path / "archive").write_bytes(tar_of(OK, *(file(str(number)) for number in range(6))))
    (tmp_path / "files").mkdir()
    with pytest.raises(RegistryFault, match="more than 5 members"):
        unpack(str(tmp_path / "archive"), str(tmp_path / "files"), "cmd")


BUNDLE = "app.app/Contents"


@pytest.mark.item("RG-12")
@pytest.mark.parametrize("form", ["w:gz", "w:bz2", "w", "zip"])
def test_executable_bits_and_inner_links_survive(form: str, tmp_path: Path) -> None:
    if form == "zip":
        data = zip_of(
            (f"{BUNDLE}/", 0o40755, b""),
            (f"{BUNDLE}/MacOS/cmd", 0o100755, b"#!/bin/sh\necho started\n"),
            (f"{BUNDLE}/lib/helper", 0o100711, b"#!/bin/sh\n"),
            (f"{BUNDLE}/lib/data", 0o100600, b"data"),
            (f"{BUNDLE}/lib/current", 0o120777, b"data"),
            ("bin", 0o120777, f"{BUNDLE}/MacOS".encode()),
        )
    else:
        data = tar_of(
            file(f"./{BUNDLE}/MacOS/cmd", b"#!/bin/sh\necho started\n", mode=0o6755),
            file(f"{BUNDLE}/lib/helper", b"#!/bin/sh\n", mode=0o711),
            file(f"{BUNDLE}/lib/data", b"data", mode=0o666),
            link(f"{BUNDLE}/lib/current", "data"),
            link("bin", f"{BUNDLE}/MacOS"),
            link("copy", f"{BUNDLE}/lib/helper", tarfile.LNKTYPE),
            mode=form,
        )
    (tmp_path / "archive").write_bytes(data)
    root = tmp_path / "files"
    root.mkdir()
    unpack(str(tmp_path / "archive"), str(root), f"{BUNDLE}/MacOS/cmd")

    def mode_of(path: str) -> int:
        return stat.S_IMODE((root / path).stat().st_mode)

    assert mode_of(f"{BUNDLE}/MacOS/cmd") == 0o755  # no setuid
    assert mode_of(f"{BUNDLE}/lib/helper") == 0o755
    assert mode_of(f"{BUNDLE}/lib/data") == 0o644
    assert os.readlink(root / BUNDLE / "lib" / "current") == "data"
    assert os.popen(f"{root}/bin/cmd").read() == "started\n"
    if form != "zip":
        assert not (root / "copy").is_symlink()
        assert mode_of("copy") == 0o755


def test_one_executable_is_named_as_the_entry_says(tmp_path: Path) -> None:
    (tmp_path / "download").write_bytes(b"#!/bin/sh\necho raw\n")
    (tmp_path / "files").mkdir()
    unpack(str(tmp_path / "download"), str(tmp_path / "files"), "sigit-linux-amd64")
    assert os.popen(f"{tmp_path}/files/sigit-linux-amd64").read() == "raw\n"


def test_the_loader_of_a_program_is_read_from_its_headers() -> None:
    with open("/bin/sh", "rb") as shell:
        head = shell.read(65536)
    if head.startswith(b"\x7fELF"):
        assert "ld-" in elf_interpreter(head)
    assert elf_interpreter(b"#!/bin/sh\n" + b" " * 100) == ""


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.text("ab./\\é", min_size=1, max_size=9), st.sampled_from(["f", "d", "s", "h"])), max_size=5)
)
def test_no_combination_of_names_and_links_writes_outside(
    tmp_path_factory: pytest.TempPathFactory, members: list[tuple[str, str]]
) -> None:
    top = tmp_path_factory.mktemp("unpack")
    made = [
        {"f": file(name), "d": (name, {"type": tarfile.DIRTYPE}, b""), "s": link(name, members[0][0])}.get(
            kind, link(name, "cmd", tarfile.LNKTYPE)
        )
        for name, kind in members
    ]
    (top / "archive").write_bytes(tar_of(OK, *made))
    (top / "files").mkdir()
    try:
        unpack(str(top / "archive"), str(top / "files"), "cmd")
    except RegistryFault:
        pass
    assert sorted(os.listdir(top)) == ["archive", "files"]
    for parent, folders, found in os.walk(top / "files"):
        for name in (*folders, *found):
            path = os.path.realpath(os.path.join(parent, name))
            assert path == str(top / "files") or path.startswith(f"{top}/files/")


def test_a_damaged_stream_is_told_as_damage(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    for data in (b"\x1f\x8b" + b"x" * 100, b"BZh9" + b"x" * 100, b"PK\x03\x04" + b"x" * 100):
        (tmp_path / "archive").write_bytes(data)
        with pytest.raises(RegistryFault) as caught:
            archive.unpack(str(tmp_path / "archive"), str(tmp_path / "files"), "cmd")
        assert caught.value.why == "archive"
