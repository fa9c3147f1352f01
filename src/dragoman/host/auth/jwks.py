"""The public keys of an issuer: found by discovery, kept for a while, looked up again when one is missing.

Takes the id of a key, gives the key, or Refused when it cannot be had. An issuer that cannot be reached, or does not
answer, holds up nobody whose key is known. Above is the issuer, which reads tokens. Needs PyJWT[crypto].
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from msgspec import Struct

from dragoman.transport.remote.server.auth import Refused, unauthorized_error

# A curve has one algorithm, said or not; other curves have none of ours.
_CURVES = {"P-256": "ES256", "P-384": "ES384"}

# Shorter RSA keys can be broken. Bits.
_MIN_RSA_BITS = 2048

# How long published keys are believed without looking again. Seconds.
FRESH_FOR = 600.0

# A key that is not known makes us look again, but not more often than this: anybody can invent a key id. Seconds.
MIN_REFETCH_INTERVAL = 10.0

# Keys go on counting so long when the issuer cannot be reached; then nobody is let in. Seconds.
STALE_AFTER = 86400.0

# How long the issuer may take to answer, and how much it may say. Seconds, bytes.
FETCH_TIMEOUT = 10.0
MAX_RESPONSE_BYTES = 1024 * 1024
CHUNK_SIZE = 64 * 1024

Fetch = Callable[[str], Awaitable[Any]]  # a URL -> the JSON it gives; raises OSError or ValueError


class PublicKey(Struct, frozen=True, kw_only=True):
    """A key that an issuer publishes."""

    public: Any
    key_type: str
    algorithm: str  # the only algorithm that it is for; "" if it does not say


class Jwks:
    """The keys of one issuer; fetched when they are first needed, and again when they are old or one is missing."""

    def __init__(
        self, issuer: str, *, fetch: Fetch | None, clock: Callable[[], float], report: Callable[[str], None]
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch or fetch_json
        self._clock = clock
        self._report = report
        self._keys: dict[str, PublicKey] = {}  # by their ids
        self._fetched_at = self._attempted_at = float("-inf")
        self._fetching: asyncio.Future[None] | None = None  # under way, for whoever waits for it; bounded

    async def find_key(self, id: str) -> PublicKey:
        """The key with this id."""
        known, looking = self._keys.get(id), self._fetching
        is_wanted = known is None or self._clock() - self._fetched_at >= FRESH_FOR
        if is_wanted and looking is None and self._clock() - self._attempted_at >= MIN_REFETCH_INTERVAL:
            known = None  # the first who finds it old waits for the new ones
            self._fetching = looking = asyncio.ensure_future(self._refresh())
        if known is None and looking is not None:  # whose key is known need not wait for what others want
            await asyncio.shield(looking)  # who leaves meanwhile must not take the keys from the others
        if self._clock() - self._fetched_at > STALE_AFTER:
            message = f"the keys of {self._issuer} cannot be had now; try again later"
            raise Refused(503, message, {"retry-after": str(int(MIN_REFETCH_INTERVAL))})
        key = self._keys.get(id)
        if key is None:
            raise unauthorized_error(f"this token is signed by a key that {self._issuer} does not publish")
        return key

    async def _refresh(self) -> None:
        """Fetch the keys; when that fails, the ones from before go on counting for a while."""
        try:
            async with asyncio.timeout(FETCH_TIMEOUT):
                found = await self._fetch_keys()
        except (OSError, ValueError, RecursionError) as error:  # a TimeoutError is an OSError
            why = str(error) or "it does not answer"
            self._report(f"the keys of {self._issuer} cannot be had: {why}")
            return
        finally:
            self._attempted_at, self._fetching = self._clock(), None
        self._keys = {id: key for each in found if isinstance(each, dict) for id, key in _parse_key(each)}
        self._fetched_at = self._clock()

    async def _fetch_keys(self) -> list[Any]:
        """What the issuer publishes as its keys, by discovery."""
        issuer = self._issuer
        document = await self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if not isinstance(document, dict) or document.get("issuer") != issuer:
            raise ValueError("it calls itself something else")
        place = document.get("jwks_uri")
        if not isinstance(place, str) or not is_secure_url(place) or _is_http(place) > _is_http(issuer):
            raise ValueError("it does not say safely where its keys are")
        published = await self._fetch(place)
        found = published.get("keys") if isinstance(published, dict) else None
        if not isinstance(found, list):
            raise ValueError("it publishes no keys")
        return found


def _parse_key(each: dict[str, Any]) -> list[tuple[str, PublicKey]]:
    """A published key by its id; nothing where it is not for signatures, too short, or of a kind we do not know."""
    import jwt

    if each.get("use", "sig") != "sig" or each.get("kty") == "oct":
        return []
    try:
        public = jwt.PyJWK(each).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return []
    kind, declared, id = str(each.get("kty")), str(each.get("alg") or ""), each.get("kid")
    if kind == "RSA" and public.key_size < _MIN_RSA_BITS:
        return []
    if kind == "EC":
        meant = _CURVES.get(str(each.get("crv")), "none of ours")
        declared = meant if declared in ("", meant) else "none of ours"
    return [(id if isinstance(id, str) else "", PublicKey(public=public, key_type=kind, algorithm=declared))]


def is_secure_url(url: str) -> bool:
    """Whether what is fetched from there is what its owner published: https, or this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.username or parts.password or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"))


def _is_http(url: str) -> bool:
    return urlsplit(url).scheme == "http"


async def fetch_json(url: str) -> Any:
    """The JSON at a URL."""
    return await asyncio.to_thread(_fetch_json_sync, url)


class _NoRedirect(HTTPRedirectHandler):
    """Keys are where the issuer says; nobody else may say so."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _fetch_json_sync(url: str) -> Any:
    request = Request(url, headers={"Accept": "application/json", "User-Agent": "dragoman"})
    end = time.monotonic() + FETCH_TIMEOUT
    data = bytearray()
    try:
        with build_opener(_NoRedirect).open(request, timeout=FETCH_TIMEOUT) as answer:
            while piece := answer.read1(CHUNK_SIZE):
                data += piece
                if len(data) > MAX_RESPONSE_BYTES:
                    raise ValueError("it says too much")
                if time.monotonic() > end:  # a thread that reads a trickle would keep the host from ending
                    raise OSError("it answers too slowly")
    except URLError as error:
        raise OSError(str(error.reason)) from None
    except HTTPException as error:
        raise OSError(f"its answer is no HTTP ({error!r})") from None
    return json.loads(data)
