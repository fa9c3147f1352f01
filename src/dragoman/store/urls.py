"""Open a store by its address: a path, sqlite:PATH, sqlite:///PATH or memory:. Each is imported when needed."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from dragoman.errors import ConfigFault

if TYPE_CHECKING:
    from dragoman.store.contract import Store
    from dragoman.store.fleet import Engine, EngineOptions

# The scheme of an address; text with a slash before the colon is a path.
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.DOTALL | re.IGNORECASE)


class StoreAddress(NamedTuple):
    """Where sessions are stored: the scheme and the file ("" if there is none)."""

    scheme: str
    path: str

    @property
    def is_durable(self) -> bool:
        """Whether the store outlives the process."""
        return SCHEMES[self.scheme].is_durable

    def __str__(self) -> str:
        return f"{self.scheme}:{self.path}"


class StoreScheme(NamedTuple):
    """One kind of store: the form of its addresses, their parser, and how to open it."""

    example: str
    parse_path: Callable[[str], str]  # the text after the colon -> the path of the file; raises ValueError
    open: Callable[[str, EngineOptions], Awaitable[Engine]]
    is_durable: bool = True


def _parse_file_path(rest: str) -> str:
    """Parse a path, or the rest of a URL after two slashes: an empty host, then an absolute path."""
    if rest.startswith("//"):
        if not rest.startswith("///"):
            raise ValueError("the file must be on this machine; write three slashes, or none")
        rest = rest[2:]
    if not rest or rest.endswith("/"):
        raise ValueError("the address has no file name")
    # Files next to it are found by its name, so resolve links in its folder to get one name.
    folder, name = os.path.split(os.path.abspath(os.path.expanduser(rest)))
    return os.path.join(os.path.realpath(folder), name)


def _parse_no_path(rest: str) -> str:
    if rest.strip("/"):
        raise ValueError("a store in memory has no name")
    return ""


async def _open_sqlite(path: str, _: EngineOptions) -> Engine:
    from dragoman.store.local_fleet import local_engine
    from dragoman.store.sqlite import SqliteStore

    return local_engine(
        "sqlite", await SqliteStore.open(path), ["acknowledged means: synced on the disk of one machine"]
    )


async def _open_memory(_: str, __: EngineOptions) -> Engine:
    from dragoman.store.local_fleet import local_engine
    from dragoman.store.memory import MemoryStore

    return local_engine("memory", MemoryStore(), ["acknowledged means: in the memory of one process"])


SCHEMES: dict[str, StoreScheme] = {
    "sqlite": StoreScheme("sqlite:PATH", _parse_file_path, _open_sqlite),
    "memory": StoreScheme("memory:", _parse_no_path, _open_memory, is_durable=False),
}


def parse_address(text: str) -> StoreAddress:
    """Parse an address without opening anything; raise ConfigFault if it is invalid."""
    scheme_name = _SCHEME.fullmatch(text)
    name, rest = ("sqlite", text) if scheme_name is None else (scheme_name[1].lower(), scheme_name[2])
    scheme = SCHEMES.get(name)
    if scheme is None:
        known = ", ".join(each.example for each in SCHEMES.values())
        file = "" if rest.startswith("//") else f" (for a file of that name: ./{text})"
        raise ConfigFault([f"store: {text}: unknown store {name!r}; write a path, or {known}{file}"])
    try:
        return StoreAddress(name, scheme.parse_path(rest))
    except ValueError as error:
        raise ConfigFault([f"store: {text}: {error}, as in {scheme.example}"]) from None


async def open_store(address: str | StoreAddress) -> Store:
    """Open or create the store at an address: a path, sqlite:PATH or memory:. Close it after use."""
    return (await open_engine(address)).store


async def open_engine(address: str | StoreAddress, options: EngineOptions | None = None) -> Engine:
    """Open everything that an address names: the store, and what nodes share. Close it after use."""
    from dragoman.store.fleet import EngineOptions

    found = parse_address(address) if isinstance(address, str) else address
    return await SCHEMES[found.scheme].open(found.path, options or EngineOptions())
