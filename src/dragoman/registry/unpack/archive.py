"""Unpack a downloaded file by its content: tar with gzip or bzip2, zip, or one executable. The name does not matter."""

from __future__ import annotations

import bz2
import gzip
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Protocol

from dragoman.registry.fault import RegistryFault
from dragoman.registry.unpack.names import refuse
from dragoman.registry.unpack.writer import TreeWriter

_GZIP, _BZIP2, _ZIP = b"\x1f\x8b", b"BZh", b"PK\x03\x04"
_EXECUTABLES = (
    b"\x7fELF", b"MZ", b"#!", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)  # fmt: skip

# A header of a tar archive with long names or extended attributes is far smaller; tarfile reads it in one piece. Bytes.
MAX_HEADER = 4 * 1024 * 1024
DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError,
    NotImplementedError,
)  # fmt: skip
_ENCRYPTED = 0x1
_UNIX = 3  # create_system of a zip member


class Readable(Protocol):
    """Anything that gives bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most this many bytes."""


def unpack(path: str, folder: str, cmd: str) -> None:
    """Unpack a file into an empty folder and make its `cmd` executable; raise RegistryFault if it breaks a rule."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(512)
        file.seek(0)
        writer = TreeWriter(folder, size)
        try:
            if head.startswith(_GZIP):
                _unpack_tar(gzip.GzipFile(fileobj=file), writer)
            elif head.startswith(_BZIP2):
                _unpack_tar(bz2.BZ2File(file), writer)
            elif head.startswith(_ZIP):
                _unpack_zip(file, writer)
            elif head.startswith(_EXECUTABLES):
                writer.add_file(cmd, file, is_executable=True)
            elif head[257:262] == b"ustar":
                _unpack_tar(file, writer)
            else:
                raise RegistryFault("archive", "the download is no archive and no program; nothing was kept")
            writer.finish()
        except DAMAGE as error:
            raise RegistryFault("archive", f"the archive is damaged: {error}; nothing was kept") from None
        except OSError as error:
            if error.errno is not None:  # the disk; bzip2 reports damage as an OSError without a number
                raise
            raise RegistryFault("archive", f"the archive is damaged: {error}; nothing was kept") from None
        finally:
            writer.close()
    _require_command(folder, cmd)


def _require_command(folder: str, cmd: str) -> None:
    path = os.path.join(folder, *cmd.split("/"))
    real = os.path.realpath(path)
    if not real.startswith(os.path.realpath(folder) + os.sep) or not os.path.isfile(real):
        raise RegistryFault("archive", f"the archive has no file {cmd}, which the entry names as its command")
    os.chmod(real, 0o755)


def _unpack_tar(stream: Readable, writer: TreeWriter) -> None:
    bounded = BoundedStream(stream, writer)
    with tarfile.open(fileobj=bounded, mode="r|", errorlevel=2) as tar:  # type: ignore[call-overload]
        for member in tar:
            name = member.name
            is_executable = bool(member.mode & 0o111)
            if member.issparse():
                raise refuse(name, "it is a sparse file")
            if member.isdir():
                bounded.note_member()
                writer.add_folder(name)
            elif member.isreg():
                content = tar.extractfile(member)
                assert content is not None
                with bounded.content():
                    writer.add_file(name, content, is_executable=is_executable)
            elif member.issym():
                bounded.note_member()
                writer.add_link(name, member.linkname)
            elif member.islnk():
                writer.add_copy(name, member.linkname, is_executable=is_executable)
            else:
                raise refuse(name, "it is a device, a pipe or of an unknown kind")


class BoundedStream:
    """The decompressed bytes of a tar archive: headers count like content, and no header may be huge."""

    def __init__(self, stream: Readable, writer: TreeWriter) -> None:
        self._stream, self._writer = stream, writer
        self._in_content = False
        self._header_size = 0  # since the last content

    @contextmanager
    def content(self) -> Iterator[None]:
        """Read the content of a member, which the writer counts."""
        self._in_content = True
        try:
            yield
        finally:
            self._in_content = False
            self._header_size = 0

    def note_member(self) -> None:
        """Note that a member without content was read."""
        self._header_size = 0

    def read(self, size: int) -> bytes:
        """Read at most this many bytes."""
        data = self._stream.read(size)
        if not self._in_content:
            self._header_size += len(data)
            self._writer.count(len(data), "header")
            if self._header_size > MAX_HEADER:
                raise refuse("header", f"headers have more than {MAX_HEADER >> 20} MiB")
        return data


def _unpack_zip(file: IO[bytes], writer: TreeWriter) -> None:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        _check_zip_layout(members, archive.start_dir)
        for member in members:
            name = member.orig_filename
            mode = member.external_attr >> 16 if member.create_system == _UNIX else 0
            if member.flag_bits & _ENCRYPTED:
                raise refuse(name, "it is encrypted")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise refuse(name, "its compression is neither none nor deflate")
            kind = stat.S_IFMT(mode)
            if name.endswith("/") or kind == stat.S_IFDIR:
                writer.add_folder(name)
            elif kind == stat.S_IFLNK:
                if member.file_size > 4096:
                    raise refuse(name, "it is a link with a long target")
                writer.add_link(name, archive.read(member).decode("utf-8", "surrogateescape"))
            elif kind in (0, stat.S_IFREG):
                with archive.open(member) as content:
                    writer.add_file(name, content, is_executable=bool(mode & 0o111))
            else:
                raise refuse(name, "it is a device, a pipe or of an unknown kind")


def _check_zip_layout(members: list[zipfile.ZipInfo], end: int) -> None:
    """Refuse data before the first member, and members that share their bytes."""
    ordered = sorted(members, key=lambda member: member.header_offset)
    if ordered and ordered[0].header_offset != 0:
        raise refuse(ordered[0].orig_filename, "there is data before the first member")
    for member, offset in zip(ordered, [*(each.header_offset for each in ordered[1:]), end], strict=False):
        if member.header_offset + 30 + member.compress_size > offset:
            raise refuse(member.orig_filename, "it overlaps another member")
