"""The sessions of a host as a store: so that `dragoman sessions --host` reads and changes them as it does its own.

Takes a host, gives what of the store contract its API has; what only the host's own machine can do is refused and says
so. Above are the actions of `dragoman sessions`; below is afar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn
from urllib.parse import quote

import msgspec

from dragoman.cli.host_client.api import HostTarget, request_bytes, request_json
from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import Entry, Hit, Retention, Summary
from dragoman.store.summary import expired_ids, find_summary

# Entries that are asked for at once; the host gives no more.
PAGE_SIZE = 2000

_entry_decoder = msgspec.json.Decoder(Entry)


class HostStore:
    """The sessions of a host that its visitor may see."""

    def __init__(self, host: HostTarget) -> None:
        self.host = host

    async def sessions(self) -> list[Summary]:
        """All of them, the one that changed last first."""
        given = await request_json(self.host, "GET", "/api/sessions")
        return [msgspec.convert(each, Summary) for each in given["sessions"]]

    async def deletable_sessions(self) -> list[Summary]:
        """Those that the visitor may delete, and that nobody is in now."""
        given = await request_json(self.host, "GET", "/api/sessions")
        mine = [each for each in given["sessions"] if each.get("role") == "admin" and not each.get("members")]
        return [msgspec.convert(each, Summary) for each in mine]

    async def find(self, name: str) -> Summary:
        """The session somebody means."""
        return find_summary(name, await self.sessions())

    async def lines(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[bytes]:
        """Entries of a log, as lines of JSON."""
        gathered: list[bytes] = []
        while limit is None or len(gathered) < limit:
            wanted = PAGE_SIZE if limit is None else min(PAGE_SIZE, limit - len(gathered))
            page = await request_bytes(
                self.host,
                "GET",
                f"/api/sessions/{_quote_id(session_id)}/log",
                after=after + len(gathered),
                limit=wanted,
                intact=1 if intact else None,
            )
            lines = page.split(b"\n")[:-1]
            gathered += lines
            if len(lines) < wanted:
                break
        return gathered

    async def read(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[Entry]:
        """The same as entries."""
        return [_entry_decoder.decode(line) for line in await self.lines(session_id, after, limit, intact=intact)]

    async def search(self, query: str, *, limit: int = 20, session_id: str | None = None) -> list[Hit]:
        """Passages that hold all words."""
        given = await request_json(self.host, "GET", "/api/search", q=query, limit=limit, session=session_id)
        return [msgspec.convert(each, Hit) for each in given["hits"]]

    async def rename(self, session_id: str, name: str | None) -> Summary:
        """Give a session a name, or take it away."""
        return msgspec.convert(
            await request_json(self.host, "POST", f"/api/sessions/{_quote_id(session_id)}/name", {"name": name}),
            Summary,
        )

    async def fork(self, session_id: str, new_id: str, upto: int | None = None, name: str | None = None) -> Summary:
        """A copy, with its name at once; the host chooses its id."""
        body = {"upto": upto, "name": name}
        return msgspec.convert(
            await request_json(self.host, "POST", f"/api/sessions/{_quote_id(session_id)}/fork", body), Summary
        )

    async def delete(self, session_id: str) -> bool:
        """Forget a session."""
        await request_json(self.host, "DELETE", f"/api/sessions/{_quote_id(session_id)}")
        return True

    async def share(self, session_id: str, role: str, seconds: float, name: str) -> dict[str, Any]:
        """A link to a session: its token, and what is known of it."""
        body = {"role": role, "seconds": seconds, "name": name}
        given: dict[str, Any] = await request_json(
            self.host, "POST", f"/api/sessions/{_quote_id(session_id)}/shares", body
        )
        return given

    async def append(self, session_id: str, drafts: Sequence[Any]) -> NoReturn:
        """Nobody writes into the log of a host but the host."""
        raise _unsupported("import")

    async def expire(self, retention: Retention, now: str) -> list[str]:
        """Forget the old ones among those that may be deleted."""
        gone = expired_ids(retention, await self.deletable_sessions(), now)
        for session_id in gone:
            await self.delete(session_id)
        return gone

    async def verify(self, session_id: str) -> NoReturn:
        """Damage is looked at where it is."""
        raise _unsupported("repair")

    async def repair(self, session_id: str) -> NoReturn:
        """Damage is mended where it is."""
        raise _unsupported("repair")

    async def close(self) -> None:
        """Nothing is held."""


def _quote_id(session_id: str) -> str:
    return quote(session_id, safe="")


def _unsupported(action: str) -> ProtocolError:
    said = f"`dragoman sessions {action}` is done on the machine where the host runs, without --host"
    return ProtocolError(Kind.CAPABILITY_UNSUPPORTED, said)
