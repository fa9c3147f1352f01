"""A store to which the owner's secrets do not come: what is kept of a session is what all its members see.

Takes the values of secrets (of the environment that agents inherit), looks for them in every draft, in the spellings
that they have in JSON, and takes them out where one is found. Looking is cheap, for it is done for every update. Above
is the house, for which it is the store.
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
    """The store, without secrets; in all else it is the store."""

    def __init__(self, store: Store, secrets: Iterable[str]) -> None:
        known = [value.strip() for value in secrets if len(value.strip()) >= MIN_SECRET_LENGTH]
        self._store = store
        self._redaction = Redactor(known)
        self._needles = sorted({needle for value in known for needle in _encodings(value)})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Add drafts, without secrets."""
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
    """A secret as it may stand in JSON: as it is, percent-encoded, or in the middle of base64."""
    spellings = [json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1], quote(value, safe="")]
    data = value.encode()
    # Base64 of something longer has it shifted by zero, one or two bytes; the ends depend on what stands beside it.
    for shift in range(3):
        whole = b64encode(b"\0" * shift + data).decode()
        start, end = -(-shift * 4 // 3), (shift + len(data)) * 4 // 3
        if end - start >= MIN_SECRET_LENGTH:
            spellings.append(whole[start:end])
    return [spelling.encode() for spelling in dict.fromkeys(spellings)]
