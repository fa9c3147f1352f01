"""Tokens, `dgm_ID_SECRET`: access as a user, with a role, until a time. Share links are tokens for one session.

Only a digest of the secret is stored; the full text is returned once, when the token is created.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from msgspec import Struct

from dragoman.errors import Kind, ProtocolError
from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.roles import RANK
from dragoman.transport.remote.server.auth import unauthorized_error

T = TypeVar("T")

PREFIX = "dgm_"

# What a refused client is told. It does not name the store: whoever is refused need not know where it is.
HOW_TO_CREATE = "`dragoman tokens create USER` makes one, with the --store of the host if it was started with one"

# 256 bits cannot be guessed at any rate.
SECRET_BYTES = 32

# User names appear in tables, presence lines and TOML. Names of share link guests contain a space, so that no guest can
# be taken for a user.
USER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+|:/=-]{0,127}")
GUEST_SUFFIX = " (guest)"

# How often the use of a token is noted: people want to know the day. Seconds.
NOTE_USE_INTERVAL = 60.0

# Tokens that ended this long ago are deleted when the next is created. Seconds.
FORGET_AFTER = 90 * 86400.0

_TOKEN_TEXT = re.compile(r"dgm_([0-9a-z]{10})_([A-Za-z0-9_-]{43})")
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_COLUMNS = "id, user, role, label, session, maker, created, expires, used, revoked"


class Token(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token without its secret."""

    id: str
    user: str
    role: str
    label: str = ""
    session: str | None = None  # a share link: for this session only
    maker: str = ""  # who created it
    created: float
    expires: float | None = None
    used: float | None = None
    revoked: float | None = None

    def state(self, now: float) -> str:
        """Return valid, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "valid"


class Tokens:
    """The tokens of one host."""

    def __init__(self, database: HostDatabase, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self.owner = database.owner

    def create(
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
        now = self._clock()
        text, token, digest = make_token(user, role, now, seconds=seconds, label=label, session=session, maker=maker)
        self._database.execute("DELETE FROM tokens WHERE coalesce(revoked, expires) < ?", now - FORGET_AFTER)
        self._database.execute(
            "INSERT INTO tokens (id, digest, user, role, label, session, maker, created, expires)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            token.id, digest, user, role, label, session, maker, now, token.expires,
        )  # fmt: skip
        return text, token

    def create_share_link(
        self, session: str, role: str, seconds: float, *, name: str = "", maker: str = ""
    ) -> tuple[str, Token]:
        """Create a token for one session, for whoever has it. `name` is what the other members see."""
        return make_share_link(self.create, session, role, seconds, name=name, maker=maker)

    def list_tokens(self, session: str | None = None) -> list[Token]:
        """Return all tokens, or those of one session, the newest first."""
        where, values = ("WHERE session = ?", (session,)) if session is not None else ("", ())
        rows = self._database.fetch_rows(f"SELECT {_COLUMNS} FROM tokens {where} ORDER BY created DESC, id", *values)
        return [_token_of(row) for row in rows]

    def list_stored(self) -> list[tuple[bytes, Token]]:
        """Return all tokens with the digests of their secrets."""
        rows = self._database.fetch_rows(f"SELECT digest, {_COLUMNS} FROM tokens")
        return [(row[0], _token_of(row[1:])) for row in rows]

    def restore(self, digest: bytes, token: Token) -> None:
        """Store a token of another host, unless it is there."""
        values = [getattr(token, name) for name in _COLUMNS.split(", ")]
        marks = ", ".join("?" * (len(values) + 1))
        self._database.execute(f"INSERT OR IGNORE INTO tokens (digest, {_COLUMNS}) VALUES ({marks})", digest, *values)

    def highest_role(self, user: str) -> str | None:
        """Return the highest role of this user's valid tokens; None without any."""
        now = self._clock()
        roles = [each.role for each in self.list_tokens() if each.user == user and each.state(now) == "valid"]
        return max(roles, key=RANK.__getitem__, default=None)

    def is_user(self, name: str) -> bool:
        """Tell whether a token was ever created for this user."""
        return bool(self._database.fetch_rows("SELECT 1 FROM tokens WHERE user = ? AND session IS NULL LIMIT 1", name))

    def revoke(self, id: str) -> Token:
        """Revoke a token. Connections that use it are closed."""
        found = [token for token in self.list_tokens() if token.id == strip_prefix(id)]
        if not found:
            raise missing_token_error(id)
        now = self._clock()
        self._database.execute("UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE id = ?", now, found[0].id)
        return found[0]

    def verify(self, text: str) -> Token:
        """Return the token with this text. Raise Refused (401) unless it is valid."""
        id, _ = split_text(text)
        rows = self._database.fetch_rows(f"SELECT digest, {_COLUMNS} FROM tokens WHERE id = ?", id)
        digest, token = (rows[0][0], _token_of(rows[0][1:])) if rows else (None, None)
        return check_text(text, digest, token, self._clock())

    def is_use_note_due(self, token: Token) -> bool:
        """Tell whether the use of this token should be noted now."""
        return is_use_note_due(token, self._clock())

    def note_use(self, token: Token) -> None:
        """Note the time of use. Waits for the disk."""
        self._database.execute("UPDATE tokens SET used = ? WHERE id = ?", self._clock(), token.id)

    def is_valid(self, id: str) -> bool:
        """Tell whether a token is still valid, for connections that were opened with it."""
        rows = self._database.fetch_rows(f"SELECT {_COLUMNS} FROM tokens WHERE id = ?", id)
        return bool(rows) and _token_of(rows[0]).state(self._clock()) == "valid"

    def has_user_tokens(self) -> bool:
        """Tell whether there is a valid token that is not a share link."""
        return any(token.session is None and token.state(self._clock()) == "valid" for token in self.list_tokens())


class NewToken(NamedTuple):
    """A token as it is made: its text is shown once, its digest is stored."""

    text: str
    token: Token
    digest: bytes


def make_token(
    user: str,
    role: str,
    now: float,
    *,
    seconds: float | None = None,
    label: str = "",
    session: str | None = None,
    maker: str = "",
) -> NewToken:
    """Return a new token; raise invalid_params if it cannot be one."""
    name = user.removesuffix(GUEST_SUFFIX) if session is not None else user
    if USER_NAME.fullmatch(name) is None:
        short_name = name if len(name) <= 40 else f"{name[:40]}…"
        raise _invalid(
            f"{short_name!r} is not a valid user name; use at most 128 letters (a to z), digits and "
            ". _ @ + - | : / =, as in ann@example.org"
        )
    if role not in RANK:
        raise _invalid(f"there is no role {role!r}; the roles are {', '.join(RANK)}")
    if seconds is not None and seconds <= 0:
        raise _invalid("the lifetime of a token must be longer than 0 seconds")
    token = Token(
        id="".join(secrets.choice(_ALPHABET) for _ in range(10)),
        user=user,
        role=role,
        label=label,
        session=session,
        maker=maker,
        created=now,
        expires=None if seconds is None else now + seconds,
    )
    secret = secrets.token_urlsafe(SECRET_BYTES)
    return NewToken(f"{PREFIX}{token.id}_{secret}", token, _digest(secret))


def make_share_link(
    create: Callable[..., T], session: str, role: str, seconds: float, *, name: str = "", maker: str = ""
) -> T:
    """Create a token for one session, for whoever has it, with `create`."""
    guest = name or f"guest-{secrets.token_hex(2)}"
    return create(f"{guest}{GUEST_SUFFIX}", role, seconds=seconds, session=session, maker=maker, label="share link")


def strip_prefix(id: str) -> str:
    """Return the id in what a user typed for a token."""
    return id.removeprefix(PREFIX)


def split_text(text: str) -> tuple[str, str]:
    """Return the id and the secret in the text of a token; raise Refused (401) if it is none."""
    shape = _TOKEN_TEXT.fullmatch(text)
    if shape is None:
        raise unauthorized_error(f"this is not a token of this host; {HOW_TO_CREATE}")
    return shape[1], shape[2]


def check_text(text: str, digest: bytes | None, token: Token | None, now: float) -> Token:
    """Return the token that is stored under the id in a text; raise Refused (401) unless it is the same and valid."""
    _, secret = split_text(text)
    # Always compare something, so that timing does not reveal which ids exist.
    if not hmac.compare_digest(_digest(secret), digest or bytes(32)) or token is None:
        raise unauthorized_error(f"this token does not exist on this host; {HOW_TO_CREATE}")
    state = token.state(now)
    if state != "valid":
        raise unauthorized_error(f"this token is {state}; ask for a new one")
    return token


def is_use_note_due(token: Token, now: float) -> bool:
    """Tell whether the use of a token should be noted now."""
    return token.used is None or now - token.used > NOTE_USE_INTERVAL


def missing_token_error(id: str) -> ProtocolError:
    """Return the error for a token that does not exist."""
    return ProtocolError(
        Kind.RESOURCE_NOT_FOUND,
        f"there is no token {id!r}; `dragoman tokens list` lists them (--store: those of another host)",
    )


def _digest(secret: str) -> bytes:
    # A plain hash is enough: the secret is long and random.
    return hashlib.sha256(secret.encode()).digest()


def _token_of(row: tuple[object, ...]) -> Token:
    names = _COLUMNS.split(", ")
    return Token(**dict(zip(names, row, strict=True)))  # type: ignore[arg-type]


def _invalid(what: str) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, what)
