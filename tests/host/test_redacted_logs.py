"""The stored sessions of a host contain no secrets of the owner."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any

import pytest
from msgspec import Raw

from dragoman.schema.base import encode
from dragoman.store.contract import Draft
from dragoman.store.memory import MemoryStore
from dragoman.store.wrappers import RedactingStore

SECRET = 'p"ss wörd/7'


def stored(body: Any, *secrets: str) -> Any:
    async def scene() -> Any:
        store = RedactingStore(MemoryStore(), secrets)
        entries = await store.append("s", [Draft(kind="update", actor="agent", time="2026-01-01T00:00:00Z", body=body)])
        lines = await store.lines("s")
        return entries[0].body, b"".join(lines)

    return asyncio.run(scene())


@pytest.mark.parametrize("wrap", [lambda body: body, lambda body: Raw(encode(body))], ids=["values", "raw"])
@pytest.mark.parametrize(
    "said", [SECRET, f"it is {SECRET}.", b64encode(SECRET.encode()).decode(), "p%22ss%20w%C3%B6rd%2F7"]
)
def test_a_secret_is_removed_in_each_of_its_encodings(wrap: Any, said: str) -> None:
    body, line = stored(wrap({"content": {"text": said}}), SECRET)
    assert b"[redacted]" in line
    assert "[redacted]" in str(body)
    assert said.encode() not in line


def test_text_without_secrets_is_unchanged() -> None:
    body = Raw(b'{"content": {"text": "p%22ss"}}')
    assert stored(body, SECRET, "short")[0] is body
