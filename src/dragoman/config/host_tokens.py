"""The tokens of named hosts, in files next to config.toml."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dragoman.config.host_section import NamedHost
from dragoman.config.paths import UserPaths
from dragoman.config.private_files import read_bytes, write_private
from dragoman.errors import ConfigFault
from dragoman.transport.process.launch import TOKEN_VARIABLE as TOKEN_VARIABLE


def token_path(paths: UserPaths, name: str) -> str:
    """Return the path of a host's token."""
    return os.path.join(paths.config, "tokens", name)


def save_token(paths: UserPaths, name: str, token: str) -> str:
    """Save a token that only its owner can read; return the path."""
    path = token_path(paths, name)
    write_private(path, f"{token.strip()}\n".encode())
    return path


def read_token(host: NamedHost, environ: Mapping[str, str]) -> str:
    """Return the token: the variable overrides the file; reject a file that others can read."""
    if environ.get(TOKEN_VARIABLE):
        return environ[TOKEN_VARIABLE].strip()
    if not host.token_file:
        return ""
    path = os.path.expanduser(host.token_file)
    try:
        data = read_bytes(path)
        mode = os.stat(path).st_mode if data is not None else 0
    except OSError as error:
        raise ConfigFault([f"{path}: {error.strerror or error}"]) from None
    if data is None:
        raise ConfigFault(
            [f"{path} is not there; put the token of {host.name or host.url} into it, or set {TOKEN_VARIABLE}"]
        )
    if mode & 0o077:
        raise ConfigFault([f"{path} can be read by others than you: chmod 600 {path}"])
    return data.decode("utf-8", "replace").strip()
