"""The store of a house, watched: whether it can be used now, and what is made good when it can be used again.

Takes appends on their way to the store and remembers how the last one ended; `look` tries a small write when none was
made lately. Sessions whose entries could not be kept are named to `mend` once there is room. In all else it is the
store. Above are the house and its door; below is a store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from dragoman.errors import ProtocolError, StoreFault
from dragoman.store.contract import Draft, Entry, Store

# How long it is believed that the store can be used, and that it cannot: anybody may ask. Seconds.
CHECK_INTERVAL = 5.0
RETRY_INTERVAL = 1.0

# A disk that does not answer for so long cannot be used. Seconds.
PROBE_TIMEOUT = 5.0

# Why a store cannot be used, for whoever asks: no paths.
_FAULT_TEXTS = {
    "full": "there is no room for more",
    "readonly": "the store cannot be written",
    "locked": "the store is locked by another program",
    "damaged": "the store is damaged",
    "moved": "the file of the store is not where it was",
    "silent": "the disk does not answer",
}


class MonitoredStore:
    """A store, and how it is."""

    def __init__(
        self, store: Store, repair: Callable[[set[str]], Awaitable[None]], report: Callable[[str], None]
    ) -> None:
        self._store = store
        self._repair = repair
        self._report = report
        self._fault: ProtocolError | None = None
        self._last_success = self._last_probe = float("-inf")
        self._probing: asyncio.Future[Any] | None = None
        self._incomplete_sessions: set[str] = set()  # sessions of which something could not be kept
        self._recovery: asyncio.Task[None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Add drafts, and remember whether that worked."""
        try:
            entries = await self._store.append(session_id, drafts)
        except StoreFault as error:
            self._note_failure(session_id, error)
            raise
        self._fault, self._last_success = None, time.monotonic()
        return entries

    async def unavailable_reason(self) -> str:
        """Why the store cannot be used now; "" when it can."""
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
        """Wait for nothing any more."""
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)

    async def _probe(self) -> None:
        """Write a little, where the store can; one that hangs is tried once."""
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
            self._report(f"nothing can be kept: {error.message}")
        self._fault = error
        self._incomplete_sessions.add(session_id)
        if self._recovery is None:
            self._recovery = asyncio.get_running_loop().create_task(self._recover())

    async def _recover(self) -> None:
        """Try until it works, then make good what was missed."""
        try:
            while self._incomplete_sessions:
                await asyncio.sleep(RETRY_INTERVAL)
                await self._probe()
                if self._fault is None:
                    behind, self._incomplete_sessions = self._incomplete_sessions, set()
                    await self._repair(behind)
            self._report("sessions can be kept again")
        finally:
            self._recovery = None
