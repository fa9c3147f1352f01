"""Tokens as a host asks for them: of a file on its machine, or of the engine of a fleet.

A fleet checks tokens from a cache of a few seconds, so that an engine that is slow or away does not stop every request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from dragoman.errors import StoreFault
from dragoman.host.auth.roles import RANK
from dragoman.host.auth.tokens import (
    FORGET_AFTER,
    Token,
    Tokens,
    check_text,
    is_use_note_due,
    make_share_link,
    make_token,
    missing_token_error,
    split_text,
    strip_prefix,
)
from dragoman.store.fleet import Records, Signals

# How long a token is taken from the cache: revoking one takes at most this and one check of the connections. Seconds.
CACHE_SECONDS = 5.0

# Tokens in the cache; with more, all are looked up again.
MAX_CACHED = 10_000

# The signal that a token was revoked, with its id.
REVOKED = "revoked"


class StoredToken(msgspec.Struct, frozen=True):
    """A token in a record: never its secret."""

    digest: bytes
    token: Token


class TokenCalls(Protocol):
    """The tokens of a host. Raises StoreFault if storage fails."""

    owner: str

    async def create(
        self,
        user: str,
        role: str = "editor",
        *,
        seconds: float | None = None,
        label: str = "",
        session: str | None = None,
        maker: str = "",
    ) -> tuple[str, Token]:
        """Create a token. Its text is returned here and never again."""
        ...

    async def create_share_link(
        self, session: str, role: str, seconds: float, *, name: str = "", maker: str = ""
    ) -> tuple[str, Token]:
        """Create a token for one session, for whoever has it."""
        ...

    async def list_tokens(self, session: str | None = None) -> list[Token]:
        """Return all tokens, or those of one session, the newest first."""
        ...

    async def highest_role(self, user: str) -> str | None:
        """Return the highest role of this user's valid tokens; None without any."""
        ...

    async def is_user(self, name: str) -> bool:
        """Tell whether a token was ever created for this user."""
        ...

    async def revoke(self, id: str) -> Token:
        """Revoke a token. Connections that use it are closed."""
        ...

    async def verify(self, text: str) -> Token:
        """Return the token with this text. Raise Refused (401) unless it is valid."""
        ...

    def is_use_note_due(self, token: Token) -> bool:
        """Tell whether the use of this token should be noted now."""
        ...

    async def note_use(self, token: Token) -> None:
        """Note the time of use."""
        ...

    async def is_valid(self, id: str) -> bool:
        """Tell whether a token is still valid, for connections that were opened with it."""
        ...

    async def has_user_tokens(self) -> bool:
        """Tell whether there is a valid token that is not a share link."""
        ...

    async def remove_session(self, session: str) -> None:
        """Delete the share links of a session."""
        ...

    async def stored_tokens(self) -> list[StoredToken]:
        """Return all tokens with the digests of their secrets, to copy them."""
        ...

    async def restore_token(self, stored: StoredToken) -> None:
        """Store a token of another host, unless it is there."""
        ...


class FileTokens:
    """Tokens of a file (contract: `TokenCalls`): reads are brief, and writes wait for the disk in a thread."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.owner = tokens.owner

    async def create(
        self,
        user: str,
        role: str = "editor",
        *,
        seconds: float | None = None,
        label: str = "",
        session: str | None = None,
        maker: str = "",
    ) -> tuple[str, Token]:
        return await asyncio.to_thread(
            self._tokens.create, user, role, seconds=seconds, label=label, session=session, maker=maker
        )

    async def create_share_link(
        self, session: str, role: str, seconds: float, *, name: str = "", maker: str = ""
    ) -> tuple[str, Token]:
        return await asyncio.to_thread(self._tokens.create_share_link, session, role, seconds, name=name, maker=maker)

    async def list_tokens(self, session: str | None = None) -> list[Token]:
        return self._tokens.list_tokens(session)

    async def highest_role(self, user: str) -> str | None:
        return await asyncio.to_thread(self._tokens.highest_role, user)

    async def is_user(self, name: str) -> bool:
        return self._tokens.is_user(name)

    async def revoke(self, id: str) -> Token:
        return await asyncio.to_thread(self._tokens.revoke, id)

    async def verify(self, text: str) -> Token:
        return self._tokens.verify(text)

    def is_use_note_due(self, token: Token) -> bool:
        return self._tokens.is_use_note_due(token)

    async def note_use(self, token: Token) -> None:
        await asyncio.to_thread(self._tokens.note_use, token)

    async def is_valid(self, id: str) -> bool:
        return self._tokens.is_valid(id)

    async def has_user_tokens(self) -> bool:
        return self._tokens.has_user_tokens()

    async def remove_session(self, session: str) -> None:
        """Do nothing: the file removes them with the roles."""

    async def stored_tokens(self) -> list[StoredToken]:
        return [StoredToken(digest, token) for digest, token in self._tokens.list_stored()]

    async def restore_token(self, stored: StoredToken) -> None:
        await asyncio.to_thread(self._tokens.restore, stored.digest, stored.token)


# The kinds of the records: a token by its id, and each user who ever had one.
_TOKEN, _USER = "token", "token-user"


class EngineTokens:
    """Tokens as records of an engine (contract: `TokenCalls`)."""

    def __init__(
        self, records: Records, signals: Signals, owner: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self.owner = owner
        self._records = records
        self._signals = signals
        self._clock = clock
        self._cache: dict[str, tuple[float, StoredToken | None]] = {}
        signals.listen(self._on_signal)

    async def create(
        self,
        user: str,
        role: str = "editor",
        *,
        seconds: float | None = None,
        label: str = "",
        session: str | None = None,
        maker: str = "",
    ) -> tuple[str, Token]:
        now = self._clock()
        made = make_token(user, role, now, seconds=seconds, label=label, session=session, maker=maker)
        for each in await self.list_tokens():
            ended = each.revoked or each.expires
            if ended is not None and ended < now - FORGET_AFTER:
                await self._records.delete(_TOKEN, each.id)
        if session is None:
            await self._records.put(_USER, user, b"1")
        stored = msgspec.json.encode(StoredToken(made.digest, made.token))
        await self._records.put(_TOKEN, made.token.id, stored, version=0)
        return made.text, made.token

    async def create_share_link(
        self, session: str, role: str, seconds: float, *, name: str = "", maker: str = ""
    ) -> tuple[str, Token]:
        return await make_share_link(self.create, session, role, seconds, name=name, maker=maker)

    async def list_tokens(self, session: str | None = None) -> list[Token]:
        records = await self._records.list_records(_TOKEN)
        tokens = [_decode(record.value).token for record in records]
        chosen = [token for token in tokens if session is None or token.session == session]
        return sorted(chosen, key=lambda token: (-token.created, token.id))

    async def highest_role(self, user: str) -> str | None:
        now = self._clock()
        roles = [each.role for each in await self.list_tokens() if each.user == user and each.state(now) == "valid"]
        return max(roles, key=RANK.__getitem__, default=None)

    async def is_user(self, name: str) -> bool:
        return await self._records.get(_USER, name) is not None

    async def revoke(self, id: str) -> Token:
        token_id = strip_prefix(id)
        stored = await self._change(token_id, revoked=self._clock())
        if stored is None:
            raise missing_token_error(id)
        self._cache.pop(token_id, None)
        await self._signals.send(REVOKED, {"token": token_id})
        return stored.token

    async def verify(self, text: str) -> Token:
        stored = await self._find(split_text(text)[0])
        digest, token = (None, None) if stored is None else (stored.digest, stored.token)
        return check_text(text, digest, token, self._clock())

    def is_use_note_due(self, token: Token) -> bool:
        return is_use_note_due(token, self._clock())

    async def note_use(self, token: Token) -> None:
        await self._change(token.id, used=self._clock())
        self._cache.pop(token.id, None)

    async def is_valid(self, id: str) -> bool:
        stored = await self._find(id)
        return stored is not None and stored.token.state(self._clock()) == "valid"

    async def has_user_tokens(self) -> bool:
        now = self._clock()
        return any(token.session is None and token.state(now) == "valid" for token in await self.list_tokens())

    async def remove_session(self, session: str) -> None:
        for token in await self.list_tokens(session):
            await self._records.delete(_TOKEN, token.id)
            await self._signals.send(REVOKED, {"token": token.id})

    async def stored_tokens(self) -> list[StoredToken]:
        return [_decode(record.value) for record in await self._records.list_records(_TOKEN)]

    async def restore_token(self, stored: StoredToken) -> None:
        if stored.token.session is None:
            await self._records.put(_USER, stored.token.user, b"1")
        if await self._records.get(_TOKEN, stored.token.id) is None:
            await self._records.put(_TOKEN, stored.token.id, msgspec.json.encode(stored))

    async def _find(self, id: str) -> StoredToken | None:
        read_at, stored = self._cache.get(id, (float("-inf"), None))
        now = time.monotonic()
        if now - read_at > CACHE_SECONDS:
            record = await self._records.get(_TOKEN, id)
            stored = None if record is None else _decode(record.value)
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[id] = now, stored
        return stored

    async def _change(self, id: str, **values: float) -> StoredToken | None:
        """Change members of a token; a member that is set stays."""
        while (record := await self._records.get(_TOKEN, id)) is not None:
            stored = _decode(record.value)
            if "revoked" in values and stored.token.revoked is not None:
                return stored
            changed = StoredToken(stored.digest, msgspec.structs.replace(stored.token, **values))
            try:
                await self._records.put(_TOKEN, id, msgspec.json.encode(changed), version=record.version)
            except StoreFault as fault:
                if fault.why != "fenced":  # another node changed it at the same moment
                    raise
                continue
            return changed
        return None

    def _on_signal(self, topic: str, payload: dict[str, object]) -> None:
        if topic == REVOKED:
            self._cache.pop(str(payload.get("token")), None)


def _decode(data: bytes) -> StoredToken:
    return msgspec.json.decode(data, type=StoredToken)
