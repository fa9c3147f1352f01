"""A tap that forwards plain text chunks between two dialects without decoding the rest."""

from __future__ import annotations

from collections.abc import Awaitable

from msgspec import UNSET

from dragoman.dialect.text_chunk import parse_chunk, render_chunk
from dragoman.engine.connection import Connection, Tap
from dragoman.wire.envelope import Envelope, encode_call


def text_chunk_tap(source: Connection, target: Connection) -> Tap:
    """Return a tap that translates plain text chunks directly; other messages take the normal path, in order."""
    source_codec, target_codec = source.sender.codec, target.sender.codec
    assert source_codec is not None
    assert target_codec is not None
    source_forms, target_forms = source_codec.dialect.chunk_forms, target_codec.dialect.chunk_forms
    transport = target.transport

    def tap(envelope: Envelope, _: bytes) -> tuple[bool, Awaitable[None] | None]:
        if envelope.method != "session/update" or envelope.id is not UNSET or envelope.params is UNSET:
            return False, None
        chunk = parse_chunk(source_forms, envelope.params)
        if chunk is not None and chunk.message_id and not target_codec.dialect.has_message_ids:
            return False, None
        for end in (source, target):
            if chunk is None:
                break
            if end.sender.emulation is not None:
                chunk = end.sender.emulation.emulator.pass_chunk(chunk)
        params = None if chunk is None else render_chunk(target_forms, chunk)
        if params is None:
            return False, None
        target.sender.outbox.write(encode_call(UNSET, "session/update", params))
        return True, transport.drain() if transport.congested() else None

    return tap
