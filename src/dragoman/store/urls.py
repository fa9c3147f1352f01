"""Open a store by its address: a path, sqlite:PATH, sqlite:///PATH or memory:. Each is imported when needed."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from dragoman.errors import ConfigFault

if TYPE_CHECKING:
    from dragoman.store.contract import Store
    from dragoman.store.fleet import Engine, EngineOptions

# The scheme of an address; text with a slash before the colon is a path.
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.DOTALL | re.IGNORECASE)


class StoreAddress(NamedTuple):
    """Where sessions are stored: the scheme and the file ("" if there is none), or the URL of an engine."""

    scheme: str
    path: str
    url: str = ""  # of an engine that is not a file, without secrets

    @property
    def is_durable(self) -> bool:
        """Whether the store outlives the process."""
        return SCHEMES[self.scheme].is_durable

    @property
    def is_shared(self) -> bool:
        """Whether several machines can use the store."""
        return SCHEMES[self.scheme].is_shared

    def __str__(self) -> str:
        return self.url or f"{self.scheme}:{self.path}"


class StoreScheme(NamedTuple):
    """One kind of store: the form of its addresses, their parser, and how to open it."""

    example: str
    parse_path: Callable[[str], str]  # the text after the colon -> the path of the file, or a URL; raises ValueError
    open: Callable[[str, EngineOptions], Awaitable[Engine]]
    is_durable: bool = True
    is_shared: bool = False


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


def _parse_postgres_url(rest: str) -> str:
    """Check a URL of PostgreSQL, as libpq takes it; a password in it could be read by every user of this machine."""
    try:
        parts = urlsplit(f"postgresql:{rest}")
        has_password = parts.password is not None or any(name == "password" for name, _ in parse_qsl(parts.query))
    except ValueError as error:
        raise ValueError(f"the address cannot be read ({error})") from None
    if not rest.startswith("//") or not parts.path.strip("/"):
        raise ValueError("the address has no database")
    if has_password:
        raise ValueError("the address has a password; put it into PGPASSWORD or ~/.pgpass")
    return f"postgresql:{rest}"


def _parse_nats_url(rest: str) -> str:
    """Check the servers of NATS, or a folder for a server of our own; secrets come from files and variables."""
    if not rest.startswith("//"):
        return f"nats:{rest}"
    parts = urlsplit(f"nats:{rest}")
    if not parts.netloc:
        raise ValueError("the address has no server")
    if "@" in parts.netloc:
        raise ValueError("the address has a password; use ?creds=FILE or the variable NATS_TOKEN")
    return f"nats:{rest}"


async def _open_nats(url: str, options: EngineOptions) -> Engine:
    from dragoman.store.nats.engine import open_nats

    return await open_nats(url, options)


async def _open_postgres(url: str, options: EngineOptions) -> Engine:
    from dragoman.store.postgres.engine import open_postgres

    return await open_postgres(url, options)


SCHEMES: dict[str, StoreScheme] = {
    "sqlite": StoreScheme("sqlite:PATH", _parse_file_path, _open_sqlite),
    "memory": StoreScheme("memory:", _parse_no_path, _open_memory, is_durable=False),
    "nats": StoreScheme("nats://A,B,C", _parse_nats_url, _open_nats, is_shared=True),
    "postgresql": StoreScheme("postgresql://HOST/DATABASE", _parse_postgres_url, _open_postgres, is_shared=True),
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
        parsed = scheme.parse_path(rest)
        return StoreAddress(name, "", parsed) if scheme.is_shared else StoreAddress(name, parsed)
    except ValueError as error:
        raise ConfigFault([f"store: {text}: {error}, as in {scheme.example}"]) from None


async def open_store(address: str | StoreAddress) -> Store:
    """Open or create the store at an address: a path, sqlite:PATH or memory:. Close it after use."""
    return (await open_engine(address)).store


async def open_engine(address: str | StoreAddress, options: EngineOptions | None = None) -> Engine:
    """Open everything that an address names: the store, and what nodes share. Close it after use."""
    from dragoman.store.fleet import EngineOptions

    found = parse_address(address) if isinstance(address, str) else address
    return await SCHEMES[found.scheme].open(found.url or found.path, options or EngineOptions())
