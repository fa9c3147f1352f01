"""The sessions of a host as a store, for `dragoman sessions --host`.

Has the part of the store contract that the API offers; the rest is refused with advice.
"""

from __future__ import annotations

from typing import Any, NoReturn
from urllib.parse import quote

import msgspec

from dragoman.cli.host_client.api import HostTarget, request_bytes, request_json
from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import (
    ALL_SESSIONS,
    LOCAL_FEATURES,
    Entry,
    Hit,
    Retention,
    SavedState,
    Selection,
    Summary,
    decode_entry,
)
from dragoman.store.summary import expired_ids, find_summary, select_summaries

# Entries per request; the host sends no more.
PAGE_SIZE = 2000


class HostStore:
    """The sessions of a host that the user may see."""

    def __init__(self, host: HostTarget) -> None:
        self.host = host

    features = LOCAL_FEATURES

    async def sessions(self, wanted: Selection = ALL_SESSIONS) -> list[Summary]:
        """Return the sessions that fit, the last changed first."""
        answer = await request_json(self.host, "GET", "/api/sessions")
        known = [msgspec.convert(each, Summary) for each in answer["sessions"]]
        return select_summaries(known, wanted)

    async def deletable_sessions(self) -> list[Summary]:
        """Return the sessions that the user may delete and that have no members now."""
        answer = await request_json(self.host, "GET", "/api/sessions")
        deletable = [each for each in answer["sessions"] if each.get("role") == "admin" and not each.get("members")]
        return [msgspec.convert(each, Summary) for each in deletable]

    async def find(self, name: str) -> Summary:
        """Return the session with this name or id."""
        return find_summary(name, await self.sessions())

    async def lines(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[bytes]:
        """Return entries of a log, as JSON lines."""
        result: list[bytes] = []
        while limit is None or len(result) < limit:
            page_limit = PAGE_SIZE if limit is None else min(PAGE_SIZE, limit - len(result))
            page = await request_bytes(
                self.host,
                "GET",
                f"/api/sessions/{_quote_id(session_id)}/log",
                after=after + len(result),
                limit=page_limit,
                intact=1 if intact else None,
            )
            lines = page.split(b"\n")[:-1]
            result += lines
            if len(lines) < page_limit:
                break
        return result

    async def read(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[Entry]:
        """Return entries of a log."""
        return [decode_entry(line) for line in await self.lines(session_id, after, limit, intact=intact)]

    async def search(self, query: str, *, limit: int = 20, session_id: str | None = None) -> list[Hit]:
        """Return passages that contain all words."""
        answer = await request_json(self.host, "GET", "/api/search", q=query, limit=limit, session=session_id)
        return [msgspec.convert(each, Hit) for each in answer["hits"]]

    async def rename(self, session_id: str, name: str | None) -> Summary:
        """Give a session a name, or remove it."""
        return msgspec.convert(
            await request_json(self.host, "POST", f"/api/sessions/{_quote_id(session_id)}/name", {"name": name}),
            Summary,
        )

    async def fork(self, session_id: str, new_id: str, upto: int | None = None, name: str | None = None) -> Summary:
        """Copy a session and name it; the host chooses the id."""
        body = {"upto": upto, "name": name}
        return msgspec.convert(
            await request_json(self.host, "POST", f"/api/sessions/{_quote_id(session_id)}/fork", body), Summary
        )

    async def delete(self, session_id: str) -> bool:
        """Delete a session."""
        await request_json(self.host, "DELETE", f"/api/sessions/{_quote_id(session_id)}")
        return True

    async def expire(self, retention: Retention, now: str) -> list[str]:
        """Delete old sessions among those that may be deleted."""
        expired = expired_ids(retention, await self.deletable_sessions(), now)
        for session_id in expired:
            await self.delete(session_id)
        return expired

    async def credentials(self, session_id: str) -> dict[str, Any]:
        """Return nothing: the host does not tell."""
        return {}

    async def probe(self) -> None:
        """Do nothing: only the host can repair what it would find."""

    async def close(self) -> None:
        """Do nothing."""

    async def _refuse_import(self, *_: Any, **__: Any) -> NoReturn:
        raise _unsupported("import")  # only the host writes its logs

    append = begin_import = keep_credentials = owner = claim = settle = release = save_state = _refuse_import

    async def saved_state(self, session_id: str) -> SavedState | None:
        """Return nothing: the host does not tell."""
        return None

    async def _refuse_repair(self, *_: Any, **__: Any) -> NoReturn:
        raise _unsupported("repair")

    verify = repair = _refuse_repair


def _quote_id(session_id: str) -> str:
    return quote(session_id, safe="")


def _unsupported(action: str) -> ProtocolError:
    message = f"run `dragoman sessions {action}` on the machine of the host, without --host"
    return ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message)
