"""Stores by their addresses: one text says where sessions are kept, and one table has all the ways to keep them.

    store = await open_store("~/sessions.db")        # also sqlite:PATH, sqlite:///PATH, and memory:

Takes what a user wrote, gives a store, or a ConfigFault that names what there is. A new way is a new row. Above are the
commands and programs of users; below are the stores, each imported when it is first wanted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from dragoman.errors import ConfigFault

if TYPE_CHECKING:
    from dragoman.store.contract import Store

# How an address begins; a path with a slash before the colon is a path.
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.DOTALL | re.IGNORECASE)


class StoreAddress(NamedTuple):
    """Where sessions are kept: in what way, and in which file ("" where it is none)."""

    scheme: str
    path: str

    @property
    def is_durable(self) -> bool:
        """Whether what is kept there outlives the process."""
        return SCHEMES[self.scheme].is_durable

    def __str__(self) -> str:
        return f"{self.scheme}:{self.path}"


class StoreScheme(NamedTuple):
    """One way to keep sessions: how its addresses look, how they are read, and how such a store is opened."""

    example: str
    parse_path: Callable[
        [str], str
    ]  # what stands after the colon -> the path of the file; ValueError says what is wrong
    open: Callable[[str], Awaitable[Store]]
    is_durable: bool = True


def _parse_file_path(rest: str) -> str:
    """A path, or what a URL has after two slashes: nobody's machine, then a path from the root."""
    if rest.startswith("//"):
        if not rest.startswith("///"):
            raise ValueError("a file is on this machine: write three slashes, or none")
        rest = rest[2:]
    if not rest or rest.endswith("/"):
        raise ValueError("it names no file")
    # Files are found beside it by its name, so it must have one name, whatever links lead to its folder.
    folder, name = os.path.split(os.path.abspath(os.path.expanduser(rest)))
    return os.path.join(os.path.realpath(folder), name)


def _parse_no_path(rest: str) -> str:
    if rest.strip("/"):
        raise ValueError("what is kept in memory has no name")
    return ""


async def _open_sqlite(path: str) -> Store:
    from dragoman.store.sqlite import SqliteStore

    return await SqliteStore.open(path)


async def _open_memory(_: str) -> Store:
    from dragoman.store.memory import MemoryStore

    return MemoryStore()


SCHEMES: dict[str, StoreScheme] = {
    "sqlite": StoreScheme("sqlite:PATH", _parse_file_path, _open_sqlite),
    "memory": StoreScheme("memory:", _parse_no_path, _open_memory, is_durable=False),
}


def parse_address(text: str) -> StoreAddress:
    """What an address means; nothing is opened. ConfigFault where it means nothing."""
    said = _SCHEME.fullmatch(text)
    name, rest = ("sqlite", text) if said is None else (said[1].lower(), said[2])
    scheme = SCHEMES.get(name)
    if scheme is None:
        known = ", ".join(each.example for each in SCHEMES.values())
        file = "" if rest.startswith("//") else f" (a file of that name: ./{text})"
        raise ConfigFault([f"store: {text}: there is no way {name!r} to keep sessions; say a path, or {known}{file}"])
    try:
        return StoreAddress(name, scheme.parse_path(rest))
    except ValueError as error:
        raise ConfigFault([f"store: {text}: {error}, as in {scheme.example}"]) from None


async def open_store(address: str | StoreAddress) -> Store:
    """Open the store at an address, or make it: a path, sqlite:PATH or memory:. Close it when you are done."""
    found = parse_address(address) if isinstance(address, str) else address
    return await SCHEMES[found.scheme].open(found.path)
