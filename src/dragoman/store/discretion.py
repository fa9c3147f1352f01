"""A store wrapper that redacts the owner's secrets, because all members of a session see its log.

Takes secret values, mostly from the environment that agents inherit. Searches every draft for them in their JSON
encodings; the search is cheap because it runs for every update.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from dragoman.policy.redaction import MIN_SECRET_LENGTH, Redactor
from dragoman.schema.base import encode
from dragoman.store.contract import Draft, Entry, Store


class RedactingStore:
    """A store that redacts secrets on append."""

    def __init__(self, store: Store, secrets: Iterable[str]) -> None:
        values = [value.strip() for value in secrets if len(value.strip()) >= MIN_SECRET_LENGTH]
        self._store = store
        self._redaction = Redactor(values)
        self._needles = sorted({needle for value in values for needle in _encodings(value)})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Append drafts, with secrets redacted."""
        needles = self._needles
        if needles:
            drafts = [self._redact(draft, needles) for draft in drafts]
        return await self._store.append(session_id, drafts)

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
