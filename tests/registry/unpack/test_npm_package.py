"""Tarballs of npm are unpacked as npm does it, and by the rules of archives."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from dragoman.registry.fault import RegistryFault
from dragoman.registry.unpack.npm_package import unpack_npm_package


def make_tarball(path: Path, *members: tuple[str, bytes | str]) -> str:
    """Write a tarball; a text is the target of a link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    path.write_bytes(gzip.compress(buffer.getvalue()))
    return str(path)


def test_the_first_folder_goes_links_are_left_out_and_the_last_file_of_a_name_counts(tmp_path: Path) -> None:
    tarball = make_tarball(
        tmp_path / "a.tgz",
        ("package/a/./b.js", b"old"),
        ("package/a/b.js", b"new"),
        ("package/link", "/etc/passwd"),
        ("package/.gitignore", b"x"),
        ("package/c/.npmignore", b"kept"),
        ("package/c/.gitignore", b"left out"),
        ("alone", b"without a folder"),
    )
    unpack_npm_package(tarball, str(tmp_path / "out"))
    found = {str(path.relative_to(tmp_path / "out")): path.read_bytes() for path in (tmp_path / "out").rglob("*.*")}
    assert found == {"a/b.js": b"new", ".npmignore": b"x", "c/.npmignore": b"kept"}
    assert not (tmp_path / "out" / "link").exists()
    assert not (tmp_path / "out" / "alone").exists()


@pytest.mark.item("RG-11")
@pytest.mark.parametrize("name", ["package/../../x", "package/a\\b", "package/" + "d/" * 50 + "x"])
def test_names_that_break_a_rule_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RegistryFault, match="refused"):
        unpack_npm_package(make_tarball(tmp_path / "a.tgz", (name, b"x")), str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] in (["a.tgz", "out"], ["out", "a.tgz"])
