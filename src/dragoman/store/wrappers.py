"""Store wrappers: each changes how entries are appended, and passes all other calls to another store."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from dragoman.errors import ProtocolError, StoreFault
from dragoman.policy.redaction import MIN_SECRET_LENGTH, Redactor
from dragoman.schema.base import encode
from dragoman.store.contract import Claim, Draft, Entry, Store


class StoreWrapper(ABC):
    """A store that appends in its own way; everything else is done by the store in it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read, self.lines, self.search = store.read, store.lines, store.search
        self.sessions, self.find, self.rename = store.sessions, store.find, store.rename
        self.fork, self.begin_import = store.fork, store.begin_import
        self.delete, self.expire = store.delete, store.expire
        self.verify, self.repair, self.probe = store.verify, store.repair, store.probe
        self.keep_credentials, self.credentials = store.keep_credentials, store.credentials
        self.owner, self.claim, self.settle, self.release = store.owner, store.claim, store.settle, store.release
        self.save_state, self.saved_state = store.save_state, store.saved_state
        self.close = store.close

    @property
    def features(self) -> frozenset[str]:
        """What the store in it can do."""
        return self._store.features

    @abstractmethod
    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        """Append drafts to a log and return their entries once stored."""


class TimedStore(StoreWrapper):
    """A store that measures how long each append takes, in seconds."""

    def __init__(
        self, store: Store, observe: Callable[[float], None], observe_failure: Callable[[str], None] = lambda _: None
    ) -> None:
        """`observe_failure` is told why an append failed: away, unknown, fenced, or the kind of the error."""
        super().__init__(store)
        self._observe = observe
        self._observe_failure = observe_failure

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        """Append drafts, and measure how long it takes."""
        started = time.perf_counter()
        try:
            entries = await self._store.append(session_id, drafts, claim=claim)
        except ProtocolError as error:
            self._observe_failure(error.why if isinstance(error, StoreFault) else error.kind)
            raise
        self._observe(time.perf_counter() - started)
        return entries


class RedactingStore(StoreWrapper):
    """A store that redacts the secrets of its owner, because all members of a session see its log.

    Every draft is searched for them in their JSON encodings, which is cheap; only one that has any is decoded.
    """

    def __init__(self, store: Store, secrets: Iterable[str]) -> None:
        super().__init__(store)
        self._values: set[str] = set()
        self.add_secrets(secrets)

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Redact these too from now on, such as those of an agent that was added later."""
        self._values |= {value.strip() for value in secrets if len(value.strip()) >= MIN_SECRET_LENGTH}
        self._redaction = Redactor(self._values)
        self._needles = sorted({needle for value in self._values for needle in _encodings(value)})

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        """Append drafts, with secrets redacted."""
        needles = self._needles
        if needles:
            drafts = [self._redact(draft, needles) for draft in drafts]
        return await self._store.append(session_id, drafts, claim=claim)

    def _redact(self, draft: Draft, needles: list[bytes]) -> Draft:
        body = draft.body
        raw = bytes(body) if type(body) is Raw else encode(body)
        for needle in needles:
            if needle in raw:
                return msgspec.structs.replace(draft, body=self._redaction.redact_json(msgspec.json.decode(raw)))
        return draft


def _encodings(value: str) -> list[bytes]:
    """Return a secret as it may appear in JSON: plain, percent-encoded, or inside base64."""
    spellings = [json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1], quote(value, safe="")]
    data = value.encode()
    # Inside longer base64 the value is shifted by zero, one or two bytes; the ends depend on the surrounding bytes.
    for shift in range(3):
        whole = b64encode(b"\0" * shift + data).decode()
        start, end = -(-shift * 4 // 3), (shift + len(data)) * 4 // 3
        if end - start >= MIN_SECRET_LENGTH:
            spellings.append(whole[start:end])
    return [spelling.encode() for spelling in dict.fromkeys(spellings)]


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
    "away": "the database cannot be reached",
    "unknown": "the database does not answer",
}


class MonitoredStore(StoreWrapper):
    """A store that remembers its failures, and passes sessions with lost entries to `repair` when it works again."""

    def __init__(
        self, store: Store, repair: Callable[[set[str]], Awaitable[None]], report: Callable[[str], None]
    ) -> None:
        super().__init__(store)
        self._repair = repair
        self._report = report
        self._fault: ProtocolError | None = None
        self._last_success = self._last_probe = float("-inf")
        self._probing: asyncio.Future[Any] | None = None
        self._incomplete_sessions: set[str] = set()  # sessions with entries that could not be stored
        self._recovery: asyncio.Task[None] | None = None

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        """Append drafts, and remember whether it worked."""
        try:
            entries = await self._store.append(session_id, drafts, claim=claim)
        except StoreFault as error:
            if error.why != "fenced":  # another node owns this session: the store works
                self._note_failure(session_id, error)
            raise
        self._note_success()
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
            await self._try_write()
        return (
            "" if self._fault is None else _FAULT_TEXTS.get(getattr(self._fault, "why", ""), "the store cannot be used")
        )

    async def stop(self) -> None:
        """Stop all background tasks. The store stays open."""
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)

    async def _try_write(self) -> None:
        """Try a small write; one that hangs is not repeated."""
        self._last_probe = time.monotonic()
        if self._probing is None:
            self._probing = asyncio.ensure_future(self.probe())
        trying = self._probing
        await asyncio.wait({trying}, timeout=PROBE_TIMEOUT)
        if not trying.done():
            self._note_fault(StoreFault("silent", f"the store did not answer within {PROBE_TIMEOUT:g} s"))
            return
        self._probing = None
        error = trying.exception()
        if error is None:
            self._note_success()
        else:
            self._note_fault(error if isinstance(error, ProtocolError) else StoreFault("io", repr(error)))

    def _note_success(self) -> None:
        if self._fault is not None:
            self._report("sessions can be stored again")
        self._fault, self._last_success = None, time.monotonic()

    def _note_fault(self, error: ProtocolError) -> None:
        """Remember why the store fails; report the first of its failures, whoever noticed it."""
        if self._fault is None:
            self._report(f"sessions cannot be stored: {error.message}")
        self._fault = error

    def _note_failure(self, session_id: str, error: StoreFault) -> None:
        self._note_fault(error)
        self._incomplete_sessions.add(session_id)
        if self._recovery is None:
            self._recovery = asyncio.get_running_loop().create_task(self._recover())

    async def _recover(self) -> None:
        """Retry until the store works, then recover the incomplete sessions."""
        try:
            while self._incomplete_sessions:
                await asyncio.sleep(RETRY_INTERVAL)
                await self._try_write()
                if self._fault is None:
                    behind, self._incomplete_sessions = self._incomplete_sessions, set()
                    await self._repair(behind)
        finally:
            self._recovery = None
