"""The public keys of an OpenID Connect issuer: found by discovery, cached, fetched again when one is missing.

A slow or unreachable issuer delays nobody whose key is known. Why not PyJWKClient: docs/decisions/0017-less-by-hand.md.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.transport.remote.server.auth import Refused, unauthorized_error

# Each curve has exactly one algorithm. Other curves are not supported.
_CURVES = {"P-256": "ES256", "P-384": "ES384"}

# Shorter RSA keys can be broken. Bits.
_MIN_RSA_BITS = 2048

# How long keys are used before they are fetched again. Seconds.
FRESH_FOR = 600.0

# The shortest time between two fetches for an unknown key id, because anybody can invent one. Seconds.
MIN_REFETCH_INTERVAL = 10.0

# How long keys stay valid while the issuer cannot be reached; then nobody can log in. Seconds.
STALE_AFTER = 86400.0

# Limits for answers of the issuer. Seconds, bytes.
FETCH_TIMEOUT = 10.0
MAX_RESPONSE_BYTES = 1024 * 1024

Fetch = Callable[[str], Awaitable[Any]]  # a URL -> its JSON; raises OSError or ValueError


class PublicKey(Struct, frozen=True, kw_only=True):
    """A key that an issuer publishes."""

    public: Any
    key_type: str
    algorithm: str  # the only algorithm it may be used with; "" if it names none


class Jwks:
    """The keys of one issuer, fetched when first needed, and again when they are old or one is missing."""

    def __init__(
        self, issuer: str, *, fetch: Fetch | None, clock: Callable[[], float], report: Callable[[str], None]
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch or fetch_json
        self._clock = clock
        self._report = report
        self._keys: dict[str, PublicKey] = {}  # by id
        self._fetched_at = self._attempted_at = float("-inf")
        self._fetching: asyncio.Future[None] | None = None  # a fetch under way, shared by all who wait; has a timeout

    async def find_key(self, id: str) -> PublicKey:
        """Return the key with this id. Raise Refused if there is none."""
        known, looking = self._keys.get(id), self._fetching
        is_wanted = known is None or self._clock() - self._fetched_at >= FRESH_FOR
        if is_wanted and looking is None and self._clock() - self._attempted_at >= MIN_REFETCH_INTERVAL:
            known = None  # the first request that finds the keys old waits for new ones
            self._fetching = looking = asyncio.ensure_future(self._refresh())
        if known is None and looking is not None:  # nobody with a known key waits for a fetch
            await asyncio.shield(looking)  # a disconnect must not cancel the fetch for the others
        if self._clock() - self._fetched_at > STALE_AFTER:
            message = f"the keys of {self._issuer} cannot be fetched; try again later"
            raise Refused(503, message, {"retry-after": str(int(MIN_REFETCH_INTERVAL))})
        key = self._keys.get(id)
        if key is None:
            raise unauthorized_error(f"this token is signed by a key that {self._issuer} does not publish")
        return key

    async def _refresh(self) -> None:
        """Fetch the keys. If that fails, the old ones stay valid for a while."""
        try:
            async with asyncio.timeout(FETCH_TIMEOUT):
                found = await self._fetch_keys()
        except (OSError, ValueError, RecursionError) as error:  # a TimeoutError is an OSError
            reason = str(error) or "it does not answer"
            self._report(f"the keys of {self._issuer} cannot be fetched: {reason}")
            return
        finally:
            self._attempted_at, self._fetching = self._clock(), None
        self._keys = {id: key for each in found if isinstance(each, dict) for id, key in _parse_key(each)}
        self._fetched_at = self._clock()

    async def _fetch_keys(self) -> list[Any]:
        """Return the keys that the issuer publishes, by discovery."""
        issuer = self._issuer
        document = await self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if not isinstance(document, dict) or document.get("issuer") != issuer:
            raise ValueError("its discovery document names another issuer")
        jwks_url = document.get("jwks_uri")
        https_only = urlsplit(issuer).scheme == "https"
        if not isinstance(jwks_url, str) or not is_secure_url(jwks_url, https_only=https_only):
            raise ValueError("its discovery document has no secure jwks_uri")
        published = await self._fetch(jwks_url)
        found = published.get("keys") if isinstance(published, dict) else None
        if not isinstance(found, list):
            raise ValueError("it publishes no keys")
        return found


def _parse_key(each: dict[str, Any]) -> list[tuple[str, PublicKey]]:
    """Return a published key with its id; nothing if it is not for signatures, too short, or of an unknown kind."""
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
        expected = _CURVES.get(str(each.get("crv")), "unsupported")
        declared = expected if declared in ("", expected) else "unsupported"
    return [(id if isinstance(id, str) else "", PublicKey(public=public, key_type=kind, algorithm=declared))]


def is_secure_url(url: str, *, https_only: bool = False) -> bool:
    """Tell whether a URL is safe to fetch keys from: https, or (unless `https_only`) this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.username or parts.password or not parts.hostname:
        return False
    is_local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    return parts.scheme == "https" or (is_local and not https_only)


async def fetch_json(url: str) -> Any:
    """Return the JSON at a URL. Redirects are refused: only the issuer says where its keys are."""
    import httpx

    data = bytearray()
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "dragoman"}
    try:
        async with (
            httpx.AsyncClient(verify=ssl.create_default_context()) as client,
            client.stream("GET", url, headers=headers, timeout=FETCH_TIMEOUT) as response,
        ):
            if response.status_code != 200:
                raise OSError(f"it answered with status {response.status_code}")
            async for piece in response.aiter_raw():
                data += piece
                if len(data) > MAX_RESPONSE_BYTES:
                    raise ValueError("its answer is too long")
    except httpx.HTTPError as error:
        raise OSError(str(error) or repr(error)) from None
    return json.loads(data)
