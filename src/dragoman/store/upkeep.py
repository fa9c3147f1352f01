"""A store wrapper that monitors whether the store works, and recovers sessions when it works again.

Remembers how the last append ended; `unavailable_reason` tries a small write if there was none lately. Sessions with
lost entries are passed to a callback once the store works again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from dragoman.errors import ProtocolError, StoreFault
from dragoman.store.contract import Draft, Entry, Store

# How long a result is reused, since any client may ask. Seconds.
CHECK_INTERVAL = 5.0
RETRY_INTERVAL = 1.0

# A disk that does not answer for this long counts as failed. Seconds.
PROBE_TIMEOUT = 5.0

# Reasons shown to clients: without paths.
_FAULT_TEXTS = {
    "full": "the disk is full",
    "readonly": "the store cannot be written",
    "locked": "the store is locked by another program",
    "damaged": "the store is damaged",
    "moved": "the store file was moved or removed",
    "silent": "the disk does not answer",
}


class MonitoredStore:
    """A store whose failures are remembered."""

    def __init__(
        self, store: Store, repair: Callable[[set[str]], Awaitable[None]], report: Callable[[str], None]
    ) -> None:
        self._store = store
        self._repair = repair
        self._report = report
        self._fault: ProtocolError | None = None
        self._last_success = self._last_probe = float("-inf")
        self._probing: asyncio.Future[Any] | None = None
        self._incomplete_sessions: set[str] = set()  # sessions with entries that could not be stored
        self._recovery: asyncio.Task[None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Append drafts, and remember whether it worked."""
        try:
            entries = await self._store.append(session_id, drafts)
        except StoreFault as error:
            self._note_failure(session_id, error)
            raise
        self._fault, self._last_success = None, time.monotonic()
        return entries

    async def unavailable_reason(self) -> str:
        """Return why the store cannot be used now; "" if it can."""
        now = time.monotonic()
        last, most = (
            (max(self._last_probe, self._last_success), CHECK_INTERVAL)
            if self._fault is None
            else (self._last_probe, RETRY_INTERVAL)
        )
        if now - last > most:
            await self._probe()
        return (
            "" if self._fault is None else _FAULT_TEXTS.get(getattr(self._fault, "why", ""), "the store cannot be used")
        )

    async def close(self) -> None:
        """Stop all background tasks."""
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)

    async def _probe(self) -> None:
        """Try a small write, if the store supports it; a probe that hangs is not repeated."""
        self._last_probe = time.monotonic()
        if self._probing is None:
            self._probing = asyncio.ensure_future(getattr(self._store, "probe", self._store.sessions)())
        trying = self._probing
        await asyncio.wait({trying}, timeout=PROBE_TIMEOUT)
        if not trying.done():
            self._fault = StoreFault("silent", f"the store did not answer within {PROBE_TIMEOUT:g} s")
            return
        self._probing = None
        error = trying.exception()
        if error is None:
            self._fault, self._last_success = None, time.monotonic()
        else:
            self._fault = error if isinstance(error, ProtocolError) else StoreFault("io", repr(error))

    def _note_failure(self, session_id: str, error: StoreFault) -> None:
        if self._fault is None:
            self._report(f"sessions cannot be stored: {error.message}")
        self._fault = error
        self._incomplete_sessions.add(session_id)
        if self._recovery is None:
            self._recovery = asyncio.get_running_loop().create_task(self._recover())

    async def _recover(self) -> None:
        """Retry until the store works, then recover the incomplete sessions."""
        try:
            while self._incomplete_sessions:
                await asyncio.sleep(RETRY_INTERVAL)
                await self._probe()
                if self._fault is None:
                    behind, self._incomplete_sessions = self._incomplete_sessions, set()
                    await self._repair(behind)
            self._report("sessions can be stored again")
        finally:
            self._recovery = None
