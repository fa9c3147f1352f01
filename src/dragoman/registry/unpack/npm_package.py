"""Unpack the tarball of an npm package as npm does: its files without the first folder, no links, no folders alone."""

from __future__ import annotations

import gzip
import os
import tarfile

from dragoman.registry.fault import RegistryFault
from dragoman.registry.unpack.archive import DAMAGE, BoundedStream
from dragoman.registry.unpack.writer import TreeWriter


def unpack_npm_package(path: str, folder: str) -> None:
    """Unpack a tarball into a folder, which is made; raise RegistryFault if it breaks a rule."""
    os.makedirs(folder, exist_ok=True)
    writer = TreeWriter(folder, os.path.getsize(path))
    try:
        with open(path, "rb") as file:
            _write_members(BoundedStream(gzip.GzipFile(fileobj=file), writer), writer)
        writer.finish()
    except DAMAGE as error:
        raise RegistryFault("archive", f"the archive is damaged: {error}; nothing was kept") from None
    finally:
        writer.close()


def _write_members(stream: BoundedStream, writer: TreeWriter) -> None:
    written: set[str] = set()
    with tarfile.open(fileobj=stream, mode="r|", errorlevel=2) as tar:  # type: ignore[call-overload]
        for member in tar:
            # Some names have a dot in between (cline has one).
            name = "/".join([part for part in member.name.split("/") if part not in ("", ".")][1:])
            is_ignore_file = name.rpartition("/")[2] == ".gitignore"
            if is_ignore_file:  # npm gives it the name that npm itself reads
                name = f"{name.removesuffix('.gitignore')}.npmignore"
            if not member.isreg() or member.issparse() or not name or (is_ignore_file and name in written):
                stream.note_member()
                continue
            content = tar.extractfile(member)
            assert content is not None
            # Packages of npm may have a file twice (cline has one); the last one counts.
            write = writer.replace_file if name in written else writer.add_file
            written.add(name)
            with stream.content():
                write(name, content, is_executable=bool(member.mode & 0o111))
