"""Hosts by the names that the user gave them: kept in config.toml, their tokens in files beside it.

Takes values, changes the file; everything else in it stays as it is. Who dials, and how, is decided above.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from dragoman.config.config_file import Agents, change, quoted, with_key, with_table, without, without_table
from dragoman.config.host_section import NamedHost
from dragoman.config.paths import Places
from dragoman.config.private_files import read, write_private
from dragoman.errors import ConfigFault

# A token for any host, for whoever does not want a file: stronger than what a file says.
VARIABLE = "DRAGOMAN_TOKEN"


def add(path: str, host: NamedHost) -> None:
    """Write one more host at the end of the file; a name that is taken is refused."""

    def added(text: str, known: Agents) -> str:
        if host.name in known.hosts:
            raise ConfigFault([f"there is a host {host.name} already; remove it first"])
        return with_table(text, _table(host))

    change(path, added)


def replace(path: str, host: NamedHost) -> None:
    """Write a host anew that is there already; what else is in the file, and the default, stay as they are."""
    change(path, lambda text, _: with_table(without_table(text, ("hosts", host.name), path), _table(host)))


def _table(host: NamedHost) -> str:
    lines = [f"[hosts.{host.name}]", f"url = {quoted(host.url)}"]
    lines += [f"{key} = {quoted(getattr(host, key))}" for key in ("token_file", "ca") if getattr(host, key)]
    return "\n".join(lines) + "\n"


def remove(path: str, name: str) -> None:
    """Take a host out, and the default with it if it was that."""

    def removed(text: str, known: Agents) -> str:
        if known.default_host == name:
            text = without(text, "default_host")
        return without_table(text, ("hosts", name), path)

    change(path, removed)


def set_default(path: str, name: str) -> None:
    """Which host is meant when none is named; an empty name takes the choice back."""
    change(path, lambda text, _: with_key(text, "default_host", name))


def token_place(here: Places, name: str) -> str:
    """Where the token of a host is kept."""
    return os.path.join(here.config, "tokens", name)


def keep_token(here: Places, name: str, token: str) -> str:
    """Keep a token so that only its owner reads it; gives the file."""
    path = token_place(here, name)
    write_private(path, f"{token.strip()}\n".encode())
    return path


def token_of(host: NamedHost, environ: Mapping[str, str]) -> str:
    """The token to bring: the variable's, else the file's; a file that others can read is refused."""
    if environ.get(VARIABLE):
        return environ[VARIABLE].strip()
    if not host.token_file:
        return ""
    path = os.path.expanduser(host.token_file)
    try:
        data = read(path)
        mode = os.stat(path).st_mode if data is not None else 0
    except OSError as error:
        raise ConfigFault([f"{path}: {error.strerror or error}"]) from None
    if data is None:
        raise ConfigFault([f"{path} is not there; put the token of {host.name or host.url} into it, or set {VARIABLE}"])
    if mode & 0o077:
        raise ConfigFault([f"{path} can be read by others than you: chmod 600 {path}"])
    return data.decode("utf-8", "replace").strip()
