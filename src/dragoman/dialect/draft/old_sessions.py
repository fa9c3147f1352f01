"""The folder of a session of an earlier connection: the draft's session/load has none, and others need it."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from dragoman.dialect.emulator import Deliver, Flow
from dragoman.errors import ProtocolError
from dragoman.schema.session import ListSessionsParams

# Pages of session/list that are looked at: more would be slower than a refusal.
MAX_PAGES: Final = 10


def listed_cwd(session_id: str, default: str) -> Flow:
    """Return the folder of a session as the agent lists it; the default if it does not."""
    cursor: Any = UNSET
    for _ in range(MAX_PAGES):
        try:
            page = yield Deliver("session/list", ListSessionsParams(cursor=cursor))
        except ProtocolError:  # the agent lists no sessions
            break
        for info in page.sessions:
            if info.session_id == session_id:
                return info.cwd
        cursor = page.next_cursor
        if not cursor:
            break
    return default
