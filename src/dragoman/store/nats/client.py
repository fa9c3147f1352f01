"""One connection to NATS and the calls of JetStream that the store uses, as requests of our own.

A publish compares the last sequence of its subject. Its outcome is stored, conflict, or unknown: then the log tells.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from dragoman.errors import ConfigFault, StoreFault
from dragoman.store.nats.publisher import NoAnswer, NoStream, Publisher, header
from dragoman.store.summary import closed_error

# How long to wait for an answer. The election of a leader takes longer; then the outcome is unknown. Seconds.
REQUEST_TIMEOUT = 5.0
CONNECT_TIMEOUT = 5.0

# Messages of one batch get.
BATCH = 500

# Codes of JetStream: the last sequence of the subject is another one; the same while a write is in flight.
WRONG_LAST_SEQUENCE = 10071
WRITE_IN_FLIGHT = 10164
STREAM_NOT_FOUND = 10059
MESSAGE_NOT_FOUND = 10037
_FULL = {10077, 10047, 10122}  # the stream, or the storage of the account or the server, is full

# What a header takes of a payload. Bytes.
HEADER_ROOM = 4096


class StreamMessage(msgspec.Struct, frozen=True):
    """A message of a stream."""

    subject: str
    seq: int
    data: bytes
    time: datetime


class _Ack(msgspec.Struct):
    """The answer to a publish."""

    seq: int = 0
    error: dict[str, Any] | None = None


_decode_ack = msgspec.json.Decoder(_Ack).decode


class Conflict(Exception):
    """The last message of a subject is not the expected one, or not yet."""


class NatsClient:
    """A connection. `where` is the address without secrets, for messages."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._nc: Any = None
        self._publisher: Publisher
        self._is_closed = False

    async def connect(self, servers: list[str], **options: Any) -> None:
        """Connect, and again by itself whenever the connection is lost; raise StoreFault if nobody answers."""
        try:
            import nats
        except ImportError:
            advice = "NATS needs the package nats-py; install it with: pip install 'dragoman[nats]'"
            raise ConfigFault([f"store: {advice}"]) from None

        async def ignore(_: Exception) -> None:
            """Errors are those of the calls."""

        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                self._nc = await nats.connect(
                    servers=servers,
                    connect_timeout=CONNECT_TIMEOUT,
                    reconnect_time_wait=0.2,
                    max_reconnect_attempts=-1,
                    allow_reconnect=True,
                    error_cb=ignore,
                    **options,
                )
                self._publisher = Publisher(self._nc, REQUEST_TIMEOUT)
                await self._publisher.start()
        except Exception as error:
            text = str(error) or ("no answer" if isinstance(error, TimeoutError) else type(error).__name__)
            raise StoreFault(
                "away", f"{self.where} cannot be reached: {text}; start it, or check the address"
            ) from error

    @property
    def version(self) -> str:
        """The version of the server."""
        return str(self._nc._server_info.get("version", ""))

    @property
    def max_data(self) -> int:
        """The most bytes of one message of ours."""
        return int(self._nc.max_payload) - HEADER_ROOM

    async def close(self) -> None:
        """Disconnect. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            if self._nc is not None:
                self._publisher.close()
                with suppress(Exception):
                    await asyncio.wait_for(self._nc.close(), CONNECT_TIMEOUT)

    def check_open(self) -> None:
        """Raise invalid_state after `close`."""
        if self._is_closed:
            raise closed_error()

    # --- JetStream ----------------------------------------------------------------------------------------------

    async def call(self, what: str, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call the API of JetStream; return the answer, with its error if it has one."""
        self.check_open()
        data = b"" if request is None else msgspec.json.encode(request)
        try:
            answer = await self._nc.request(f"$JS.API.{what}", data, timeout=REQUEST_TIMEOUT)
        except Exception as error:
            raise self._away(error) from error
        return msgspec.json.decode(answer.data, type=dict[str, Any])

    async def publish(self, subject: str, data: bytes, *, expected: int | None = None, ttl: float | None = None) -> int:
        """Store a message and return its sequence; raise Conflict, or StoreFault("unknown") without an answer."""
        self.check_open()
        if len(data) > self.max_data:
            raise StoreFault("away", f"{self.where} takes at most {self.max_data} bytes at once, not {len(data)}")
        try:
            answer = await self._publisher.publish(subject, data, header(expected, ttl))
        except NoStream as error:
            raise self._away(error) from error
        except NoAnswer as error:
            raise StoreFault(
                "unknown", f"{self.where} did not answer, so nobody knows yet whether it stored the entries"
            ) from error
        ack = _decode_ack(answer)
        if ack.error is None:
            return ack.seq
        code, text = ack.error.get("err_code"), ack.error.get("description")
        if code in (WRONG_LAST_SEQUENCE, WRITE_IN_FLIGHT):
            raise Conflict
        if code in _FULL:
            raise StoreFault("full", f"{self.where}: {text}; raise max_bytes or delete sessions")
        raise StoreFault("unknown", f"{self.where}: {text}; whether it was stored is not known")

    async def last(self, stream: str, subject: str) -> StreamMessage | None:
        """Return the last message of a subject, from the leader: never a stale one."""
        return self._message(stream, await self.call(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject}))

    async def next(self, stream: str, subject: str, seq: int) -> StreamMessage | None:
        """Return the first message of a subject or filter from a sequence on, from the leader."""
        return self._message(stream, await self.call(f"STREAM.MSG.GET.{stream}", {"seq": seq, "next_by_subj": subject}))

    def _message(self, stream: str, answer: dict[str, Any]) -> StreamMessage | None:
        error = answer.get("error")
        if error is not None:
            if error.get("err_code") == MESSAGE_NOT_FOUND:
                return None
            raise StoreFault("away", f"{self.where}: stream {stream}: {error.get('description')}")
        found = answer["message"]
        data = base64.b64decode(found.get("data", ""))
        return StreamMessage(found["subject"], found["seq"], data, datetime.fromisoformat(found["time"]))

    async def batch(self, stream: str, subject: str, seq: int) -> AsyncIterator[StreamMessage]:
        """Return the messages of a subject or filter from a sequence on, from any replica: it may be behind."""
        while True:
            count = 0
            async for message in self._one_batch(stream, subject, seq):
                count += 1
                seq = message.seq + 1
                yield message
            if count < BATCH:
                return

    async def _one_batch(self, stream: str, subject: str, seq: int) -> AsyncIterator[StreamMessage]:
        self.check_open()
        inbox = self._nc.new_inbox()
        request = {"batch": BATCH, "seq": max(seq, 1), "next_by_subj": subject}
        try:
            subscription = await self._nc.subscribe(inbox)
        except Exception as error:
            raise self._away(error) from error
        try:
            await self._nc.publish(f"$JS.API.DIRECT.GET.{stream}", msgspec.json.encode(request), reply=inbox)
            while True:
                message = await subscription.next_msg(timeout=REQUEST_TIMEOUT)
                headers = message.headers or {}
                if "Nats-Sequence" not in headers:
                    return  # 204 ends a batch, 404 says that there is nothing
                at = datetime.fromisoformat(headers["Nats-Time-Stamp"])
                yield StreamMessage(headers["Nats-Subject"], int(headers["Nats-Sequence"]), message.data, at)
        except (StoreFault, GeneratorExit):
            raise
        except Exception as error:
            raise self._away(error) from error
        finally:
            with suppress(Exception):
                await subscription.unsubscribe()

    async def purge(self, stream: str, subject: str, *, before: int | None = None) -> None:
        """Delete the messages of a subject, or those before a sequence."""
        request: dict[str, Any] = {"filter": subject}
        if before is not None:
            request["seq"] = before
        answer = await self.call(f"STREAM.PURGE.{stream}", request)
        if error := answer.get("error"):
            raise StoreFault("away", f"{self.where}: stream {stream}: {error.get('description')}")

    # --- core ---------------------------------------------------------------------------------------------------

    async def send(self, subject: str, data: bytes) -> None:
        """Publish without storing."""
        self.check_open()
        try:
            await self._nc.publish(subject, data)
            await self._nc.flush(timeout=int(REQUEST_TIMEOUT))
        except Exception as error:
            raise self._away(error) from error

    async def subscribe(self, subject: str, callback: Any) -> None:
        """Call back with the data of each message that is published."""

        async def note(message: Any) -> None:
            callback(message.data)

        try:
            await self._nc.subscribe(subject, cb=note)
            await self._nc.flush(timeout=int(REQUEST_TIMEOUT))
        except Exception as error:
            raise self._away(error) from error

    def _away(self, error: BaseException) -> StoreFault:
        if isinstance(error, StoreFault):
            return error
        text = str(error) or type(error).__name__
        return StoreFault("away", f"{self.where} does not answer: {text}; it is tried again")
