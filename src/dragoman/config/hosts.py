"""Named hosts in config.toml, with their tokens in files next to it. Edits keep the rest of the file."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dragoman.config.config_file import (
    add_named_table,
    append_table,
    edit_config,
    quote_toml,
    remove_named_table,
    remove_table,
    set_key,
)
from dragoman.config.host_section import NamedHost
from dragoman.config.paths import UserPaths
from dragoman.config.private_files import read_bytes, write_private
from dragoman.errors import ConfigFault
from dragoman.transport.process.launch import TOKEN_VARIABLE as TOKEN_VARIABLE


def add_host(path: str, host: NamedHost) -> None:
    """Add a host at the end of the file; raise if the name is in use."""
    add_named_table(path, "hosts", host.name, _host_table(host))


def replace_host(path: str, host: NamedHost) -> None:
    """Replace an existing host; the rest of the file and the default stay."""
    edit_config(path, lambda text, _: append_table(remove_table(text, ("hosts", host.name), path), _host_table(host)))


def _host_table(host: NamedHost) -> str:
    lines = [f"[hosts.{host.name}]", f"url = {quote_toml(host.url)}"]
    lines += [f"{key} = {quote_toml(getattr(host, key))}" for key in ("token_file", "ca") if getattr(host, key)]
    return "\n".join(lines) + "\n"


def remove_host(path: str, name: str) -> None:
    """Remove a host, and the default if it was that one."""
    remove_named_table(path, "hosts", name)


def set_default_host(path: str, name: str) -> None:
    """Set the default host; an empty name removes the default."""
    edit_config(path, lambda text, _: set_key(text, "default_host", name))


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
