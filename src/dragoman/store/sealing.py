"""Seal values with a key of the fleet, so that an engine never has them in clear text. AES-GCM of `cryptography`."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import msgspec

from dragoman.errors import ConfigFault, StoreFault

# The length of a key, and of the random part of each sealed value. Bytes.
KEY_BYTES = 32
_NONCE_BYTES = 12

# How much of the digest of a key is stored, to say that a value was sealed with another one. Bytes.
_ID_BYTES = 8


class Sealer:
    """Seals JSON for one purpose (a session id). Without a key it makes one that ends with the process."""

    def __init__(self, key: bytes | None = None) -> None:
        self.is_durable = key is not None
        self._key = key or os.urandom(KEY_BYTES)
        self._id = hashlib.sha256(b"dragoman seal " + self._key).digest()[:_ID_BYTES]

    def seal(self, value: dict[str, Any], purpose: str) -> bytes:
        """Return a value as bytes that only this key opens, for this purpose."""
        nonce = os.urandom(_NONCE_BYTES)
        text: bytes = self._cipher().encrypt(nonce, msgspec.json.encode(value), purpose.encode())
        return self._id + nonce + text

    def open(self, sealed: bytes, purpose: str) -> dict[str, Any]:
        """Return what was sealed; empty if a key of another process did it and this one has none of its own."""
        if sealed[:_ID_BYTES] != self._id:
            if not self.is_durable:
                return {}
            raise _sealed_fault(purpose)
        from cryptography.exceptions import InvalidTag

        nonce, text = sealed[_ID_BYTES : _ID_BYTES + _NONCE_BYTES], sealed[_ID_BYTES + _NONCE_BYTES :]
        try:
            return msgspec.json.decode(self._cipher().decrypt(nonce, text, purpose.encode()), type=dict[str, Any])
        except (InvalidTag, msgspec.MsgspecError):
            raise _sealed_fault(purpose) from None

    def _cipher(self) -> Any:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise StoreFault(
                "unusable", "credentials need the package cryptography: pip install cryptography"
            ) from None
        return AESGCM(self._key)


def _sealed_fault(purpose: str) -> StoreFault:
    return StoreFault(
        "damaged",
        f"the credentials of session {purpose!r} were sealed with another key or are damaged; "
        "start all nodes with the same --secrets-key FILE, or enter the credentials again",
    )


def read_key(path: str) -> bytes:
    """Read the key of a file: 32 bytes, or 64 hexadecimal digits; raise ConfigFault if it is anything else."""
    try:
        fd = os.open(os.path.expanduser(path), os.O_RDONLY | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            mode = os.fstat(fd).st_mode
            data = file.read(4 * KEY_BYTES)
    except OSError as error:
        raise ConfigFault([f"--secrets-key: {path} cannot be read: {error.strerror}"]) from None
    if mode & 0o007:
        raise ConfigFault([f"--secrets-key: every user can read {path}; run: chmod 600 {path}"])
    if len(data) != KEY_BYTES:
        try:
            data = bytes.fromhex(data.decode("ascii").strip())
        except ValueError:
            data = b""
    if len(data) != KEY_BYTES:
        raise ConfigFault([f"--secrets-key: {path} has no key; make one with: openssl rand -hex {KEY_BYTES} > {path}"])
    return data
