"""Trusted project files: path and content hash, in one JSON file, mode 0600. A changed file is no longer trusted."""

from __future__ import annotations

import os
from hashlib import sha256

import msgspec

from dragoman.config.private_files import as_config_faults, file_lock, file_stamp, read_bytes, write_private
from dragoman.errors import ConfigFault


def content_hash(data: bytes) -> str:
    """Return the hash of a content."""
    return sha256(data).hexdigest()


class TrustedFiles:
    """The user's trusted files, by content."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._known: dict[str, str] = {}

    def is_trusted(self, file: str, data: bytes) -> bool:
        """Return whether exactly this content of this file is trusted."""
        now = file_stamp(self._path)
        if now != self._stamp:
            self._known = self._read()
            self._stamp = now
        return self._known.get(os.path.realpath(file)) == content_hash(data)

    def trust(self, file: str, data: bytes) -> None:
        """Trust this content."""
        with as_config_faults(self._path), file_lock(self._path):
            self._write({**self._read(), os.path.realpath(file): content_hash(data)})

    def revoke(self, file: str) -> bool:
        """Stop trusting a file; return whether it was trusted."""
        with as_config_faults(self._path), file_lock(self._path):
            known = self._read()
            was = known.pop(os.path.realpath(file), None) is not None
            if was:
                self._write(known)
        return was

    def _write(self, known: dict[str, str]) -> None:
        write_private(self._path, msgspec.json.format(msgspec.json.encode(known), indent=1))
        self._stamp = None

    def _read(self) -> dict[str, str]:
        try:
            data = read_bytes(self._path)
            return msgspec.json.decode(data, type=dict[str, str]) if data is not None else {}
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigFault([f"{self._path}: {error}; move the file away to start without trust"]) from None
