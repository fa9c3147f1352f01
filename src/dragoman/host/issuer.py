"""Bearer tokens of an OpenID Connect issuer: signed JWTs, checked against the keys that the issuer publishes.

Takes the text of a token, gives who it is for and as what, by a configured mapping of claims; everything that is not a
fresh token of this issuer for this audience, signed with one of its public keys, is refused. Needs PyJWT[crypto], which
comes with the extra `host`. Knows nothing of sessions and of our own tokens.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from msgspec import Struct

from dragoman.errors import ConfigFault
from dragoman.host.directory import RANK
from dragoman.host.tokens import USER
from dragoman.transport.remote.visitor import Refused, unauthorized

# Signatures by public keys alone: with a shared secret (HS*) or none, whoever reads the published keys could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")

# Which keys can make which signatures: a token does not choose what its key is used for.
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}

# Clocks differ that much. Seconds.
LEEWAY = 30.0

# How long published keys are believed without looking again. Seconds.
FRESH = 600.0

# A key that is not known makes us look again, but not more often than this: anybody can invent a key id. Seconds.
LOOK_AGAIN = 10.0

# Keys go on counting so long when the issuer cannot be reached; then nobody is let in. Seconds.
STALE = 86400.0

# How long the issuer may take to answer, and how much it may say. Seconds, bytes.
FETCH_PATIENCE = 10.0
LARGEST = 1024 * 1024

# A token is a few kilobytes; nothing longer is even looked at.
LONGEST_TOKEN = 16 * 1024


class Trust(Struct, frozen=True, kw_only=True):
    """Whose tokens count, for what, and what their claims mean."""

    issuer: str
    audience: str
    user: str = "sub"  # the claim that names the user
    role: str = "viewer"  # of everybody; "" lets in only those whom `roles` names
    role_claim: str = ""  # a claim with a text or a list of them, such as groups
    roles: Mapping[str, str] = {}  # what that claim says -> role; the highest counts
    owner: str = ""  # the user whom the issuer calls this is the owner of this host
    leeway: float = LEEWAY


class Bearer(Struct, frozen=True, kw_only=True):
    """Whom a token is for."""

    user: str
    role: str
    expires: float


Fetch = Callable[[str], Awaitable[Any]]  # a URL -> the JSON it gives; raises OSError or ValueError


class Issuer:
    """One issuer; its keys are fetched when they are first needed, and again when they are old or one is missing."""

    def __init__(
        self, trust: Trust, owner: str = "", *, fetch: Fetch | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        faults = faults_of(trust)
        if faults:
            raise ConfigFault(faults)
        self._trust = trust
        self._owner = owner
        self._fetch = fetch or fetched
        self._clock = clock
        self._keys: dict[str, _Key] = {}  # by their ids
        self._fetched = self._looked = float("-inf")
        self._looking = asyncio.Lock()

    async def check(self, text: str) -> Bearer:
        """Whom this token is for; Refused unless it counts here and now."""
        import jwt

        trust = self._trust
        if len(text) > LONGEST_TOKEN:
            raise unauthorized("this token is too long to be one")
        try:
            header = jwt.get_unverified_header(text)
        except jwt.PyJWTError:
            raise unauthorized("this is neither a token of this host nor one of its issuer") from None
        algorithm, id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise unauthorized(
                f"tokens must be signed by a key of {trust.issuer} ({', '.join(ALGORITHMS[:1])} or such)"
            )
        key = await self._key(id if isinstance(id, str) else "")
        if key.key_type != _KEY_TYPES[algorithm[:2]] or (key.declared and key.declared != algorithm):
            raise unauthorized("this token is not signed in the way its key is for")
        try:
            claims = jwt.decode(
                text,
                key.public,
                algorithms=[algorithm],
                audience=trust.audience,
                issuer=trust.issuer,
                leeway=trust.leeway,
                options={"require": ["exp", "iss", "aud", trust.user]},
            )
        except jwt.ExpiredSignatureError:
            raise unauthorized("this token has expired; sign in again") from None
        except jwt.InvalidAudienceError:
            raise unauthorized(f"this token is for somebody else than {trust.audience}") from None
        except jwt.InvalidIssuerError:
            raise unauthorized(f"this token is from somebody else than {trust.issuer}") from None
        except jwt.PyJWTError as error:
            raise unauthorized(f"this token does not count: {error}") from None
        return self._bearer(claims)

    def _bearer(self, claims: Mapping[str, Any]) -> Bearer:
        trust = self._trust
        name = claims.get(trust.user)
        if not isinstance(name, str) or USER.fullmatch(name) is None:
            raise unauthorized(f"the claim {trust.user} of this token is no name of a user")
        if trust.user == "email" and claims.get("email_verified") is False:
            raise unauthorized("the issuer has not verified this address")
        if trust.owner and name == trust.owner:
            return Bearer(user=self._owner or name, role="admin", expires=_expiry(claims, trust.leeway))
        if name == self._owner:
            # Whoever may choose their name at the issuer must not become the owner of this machine's sessions by it.
            raise Refused(403, f"{name} is the owner of this host; say `owner` in its [host.issuer] if you are that")
        found = [trust.role] if trust.role else []
        said = claims.get(trust.role_claim) if trust.role_claim else None
        for value in said if isinstance(said, list) else [said]:
            if isinstance(value, str) and value in trust.roles:
                found.append(trust.roles[value])
        if not found:
            raise Refused(403, f"{name} has no role here; whoever runs this host gives them out by {trust.role_claim}")
        return Bearer(user=name, role=max(found, key=RANK.__getitem__), expires=_expiry(claims, trust.leeway))

    # --- keys -------------------------------------------------------------------------------------------------

    async def _key(self, id: str) -> _Key:
        now = self._clock()
        is_fresh = now - self._fetched < FRESH
        if not (is_fresh and id in self._keys) and now - self._looked >= LOOK_AGAIN:
            async with self._looking:
                if self._clock() - self._looked >= LOOK_AGAIN:  # nobody else did meanwhile
                    self._looked = self._clock()
                    await self._look()
        if self._clock() - self._fetched > STALE:
            raise Refused(503, f"the keys of {self._trust.issuer} cannot be had now; try again later")
        key = self._keys.get(id)
        if key is None:
            raise unauthorized(f"this token is signed by a key that {self._trust.issuer} does not publish")
        return key

    async def _look(self) -> None:
        """Fetch the keys; when that fails, the ones from before go on counting for a while."""
        import jwt

        issuer = self._trust.issuer
        try:
            document = await self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if not isinstance(document, dict) or document.get("issuer") != issuer:
                raise ValueError("it calls itself something else")
            place = document.get("jwks_uri")
            if not isinstance(place, str) or not is_safe(place):
                raise ValueError("it does not say safely where its keys are")
            published = await self._fetch(place)
            found = published.get("keys") if isinstance(published, dict) else None
            if not isinstance(found, list):
                raise ValueError("it publishes no keys")
        except (OSError, ValueError):
            return
        keys = {}
        for each in found:
            if not isinstance(each, dict) or each.get("use", "sig") != "sig" or each.get("kty") == "oct":
                continue
            try:
                key = jwt.PyJWK(each)
            except jwt.PyJWTError:
                continue  # of a kind that we do not know
            id = each.get("kid")
            keys[id if isinstance(id, str) else ""] = _Key(
                public=key.key, key_type=str(each.get("kty")), declared=str(each.get("alg") or "")
            )
        self._keys = keys
        self._fetched = self._clock()


class _Key(Struct, frozen=True, kw_only=True):
    public: Any
    key_type: str
    declared: str  # the only algorithm that it is for; "" if it does not say


def faults_of(trust: Trust) -> list[str]:
    """What is wrong with the settings."""
    faults = []
    if not is_safe(trust.issuer):
        faults.append(f"issuer: {trust.issuer!r} must be an https URL (http only on this machine)")
    if not trust.audience:
        faults.append("audience: say whom tokens must be for, else tokens for other services would count here")
    for role in [*trust.roles.values(), *([trust.role] if trust.role else [])]:
        if role not in RANK:
            faults.append(f"roles: there is no role {role!r}; there are {', '.join(RANK)}")
    if trust.roles and not trust.role_claim:
        faults.append("role_claim: say which claim `roles` is about, such as groups")
    if not trust.role and not trust.roles:
        faults.append("role: nobody would be let in; say a role, or roles by a claim")
    return faults


def is_safe(url: str) -> bool:
    """Whether what is fetched from there is what its owner published: https, or this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.username or parts.password or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"))


async def fetched(url: str) -> Any:
    """The JSON at a URL."""
    return await asyncio.to_thread(_fetched, url)


class _Stay(HTTPRedirectHandler):
    """Keys are where the issuer says; nobody else may say so."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _fetched(url: str) -> Any:
    request = Request(url, headers={"Accept": "application/json", "User-Agent": "dragoman"})
    try:
        with build_opener(_Stay).open(request, timeout=FETCH_PATIENCE) as answer:
            data = answer.read(LARGEST + 1)
    except URLError as error:
        raise OSError(str(error.reason)) from None
    if len(data) > LARGEST:
        raise ValueError("it says too much")
    return json.loads(data)


def _expiry(claims: Mapping[str, Any], leeway: float) -> float:
    return float(claims["exp"]) + leeway
