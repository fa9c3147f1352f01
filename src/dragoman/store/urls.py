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


class Address(NamedTuple):
    """Where sessions are kept: in what way, and in which file ("" where it is none)."""

    scheme: str
    path: str

    @property
    def lasts(self) -> bool:
        """Whether what is kept there outlives the process."""
        return SCHEMES[self.scheme].lasts

    def __str__(self) -> str:
        return f"{self.scheme}:{self.path}"


class Scheme(NamedTuple):
    """One way to keep sessions: how its addresses look, how they are read, and how such a store is opened."""

    looks: str
    read: Callable[[str], str]  # what stands after the colon -> the path of the file; ValueError says what is wrong
    open: Callable[[str], Awaitable[Store]]
    lasts: bool = True


def _file(rest: str) -> str:
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


def _nothing(rest: str) -> str:
    if rest.strip("/"):
        raise ValueError("what is kept in memory has no name")
    return ""


async def _sqlite(path: str) -> Store:
    from dragoman.store.sqlite import SqliteStore

    return await SqliteStore.open(path)


async def _memory(_: str) -> Store:
    from dragoman.store.memory import MemoryStore

    return MemoryStore()


SCHEMES: dict[str, Scheme] = {
    "sqlite": Scheme("sqlite:PATH", _file, _sqlite),
    "memory": Scheme("memory:", _nothing, _memory, lasts=False),
}


def located(text: str) -> Address:
    """What an address means; nothing is opened. ConfigFault where it means nothing."""
    said = _SCHEME.fullmatch(text)
    name, rest = ("sqlite", text) if said is None else (said[1].lower(), said[2])
    scheme = SCHEMES.get(name)
    if scheme is None:
        known = ", ".join(each.looks for each in SCHEMES.values())
        file = "" if rest.startswith("//") else f" (a file of that name: ./{text})"
        raise ConfigFault([f"store: {text}: there is no way {name!r} to keep sessions; say a path, or {known}{file}"])
    try:
        return Address(name, scheme.read(rest))
    except ValueError as error:
        raise ConfigFault([f"store: {text}: {error}, as in {scheme.looks}"]) from None


async def open_store(address: str | Address) -> Store:
    """Open the store at an address, or make it: a path, sqlite:PATH or memory:. Close it when you are done."""
    found = located(address) if isinstance(address, str) else address
    return await SCHEMES[found.scheme].open(found.path)
