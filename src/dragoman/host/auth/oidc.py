"""Bearer tokens of an OpenID Connect issuer: signed JWTs, checked against the keys that the issuer publishes.

Takes the text of a token, gives who it is for and as what, by a configured mapping of claims; everything that is not a
fresh token of this issuer for this audience, signed with one of its public keys, is refused. Needs PyJWT[crypto], which
comes with the extra `host`. Knows nothing of sessions and of our own tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from dragoman.errors import ConfigFault
from dragoman.host.auth.jwks import Fetch, Jwks, is_secure_url
from dragoman.host.auth.roles import RANK
from dragoman.host.auth.tokens import USER_NAME
from dragoman.transport.remote.server.auth import Refused, unauthorized_error

# Signatures by public keys alone: with a shared secret (HS*) or none, whoever reads the published keys could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")

# Which keys can make which signatures: a token does not choose what its key is used for.
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}

# Clocks differ that much, and a clock that is off by more than the most is wrong. Seconds.
LEEWAY = 30.0
MAX_LEEWAY = 600.0

# A token is a few kilobytes; nothing longer is even looked at.
MAX_TOKEN_LENGTH = 16 * 1024


class OidcSettings(Struct, frozen=True, kw_only=True):
    """Whose tokens count, for what, and what their claims mean."""

    issuer: str
    audience: str
    user: str = "sub"  # the claim that names the user
    role: str = "viewer"  # of everybody; "" lets in only those whom `roles` names
    role_claim: str = ""  # a claim with a text or a list of them, such as groups, or realm_access.roles in another
    roles: Mapping[str, str] = {}  # what that claim says -> role; the highest counts
    owner: str = ""  # the user whom the issuer calls this is the owner of this host
    leeway: float = LEEWAY


class TokenIdentity(Struct, frozen=True, kw_only=True):
    """Whom a token is for."""

    user: str
    role: str
    expires: float


class Oidc:
    """One issuer, and what its tokens mean here."""

    def __init__(
        self,
        settings: OidcSettings,
        owner: str = "",
        *,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.time,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """`report` is told why keys cannot be had, for whoever runs the host; users are told that it is so."""
        faults = settings_faults(settings)
        if faults:
            raise ConfigFault(faults)
        self._settings = settings
        self._owner = owner
        self._keys = Jwks(settings.issuer, fetch=fetch, clock=clock, report=report or (lambda _: None))

    async def verify(self, text: str) -> TokenIdentity:
        """Whom this token is for; Refused unless it counts here and now."""
        import jwt

        trust = self._settings
        if len(text) > MAX_TOKEN_LENGTH:
            raise unauthorized_error("this token is too long to be one")
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise unauthorized_error("this is neither a token of this host nor one of its issuer") from None
        if "crit" in header:  # what must be understood, and is not (RFC 7515, 4.1.11)
            raise unauthorized_error("this token wants something of its readers that this host does not know")
        algorithm, id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise unauthorized_error(
                f"tokens must be signed by a key of {trust.issuer} ({', '.join(ALGORITHMS[:1])} or such)"
            )
        key = await self._keys.find_key(id if isinstance(id, str) else "")
        if key.key_type != _KEY_TYPES[algorithm[:2]] or (key.algorithm and key.algorithm != algorithm):
            raise unauthorized_error("this token is not signed in the way its key is for")
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
            expires = float(claims["exp"]) + trust.leeway
        except jwt.ExpiredSignatureError:
            raise unauthorized_error("this token has expired; sign in again") from None
        except jwt.InvalidAudienceError:
            raise unauthorized_error(f"this token is for somebody else than {trust.audience}") from None
        except jwt.InvalidIssuerError:
            raise unauthorized_error(f"this token is from somebody else than {trust.issuer}") from None
        except (jwt.PyJWTError, ValueError, OverflowError, TypeError, RecursionError) as error:
            raise unauthorized_error(f"this token does not count: {error}") from None
        return self._identity(claims, expires)

    def _identity(self, claims: Mapping[str, Any], expires: float) -> TokenIdentity:
        trust = self._settings
        name = claims.get(trust.user)
        if not isinstance(name, str) or USER_NAME.fullmatch(name) is None:
            raise unauthorized_error(f"the claim {trust.user} of this token is no name of a user")
        if trust.user == "email" and claims.get("email_verified", True) not in (True, "true"):
            raise unauthorized_error("the issuer has not verified this address")
        if trust.owner and name == trust.owner:
            return TokenIdentity(user=self._owner or name, role="admin", expires=expires)
        if name == self._owner:
            # Whoever may choose their name at the issuer must not become the owner of this machine's sessions by it.
            raise Refused(403, f"{name} is the owner of this host; say `owner` in its [host.issuer] if you are that")
        found = [trust.role] if trust.role else []
        said = _claim(claims, trust.role_claim)
        for value in said if isinstance(said, list) else [said]:
            if isinstance(value, str) and value in trust.roles:
                found.append(trust.roles[value])
        if not found:
            raise Refused(403, f"{name} has no role here; whoever runs this host gives them out by {trust.role_claim}")
        return TokenIdentity(user=name, role=max(found, key=RANK.__getitem__), expires=expires)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, which may have dots, or by the names of those it is in."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def settings_faults(settings: OidcSettings) -> list[str]:
    """What is wrong with the settings."""
    faults = []
    if not is_secure_url(settings.issuer):
        faults.append(f"issuer: {settings.issuer!r} must be an https URL (http only on this machine)")
    if not settings.audience:
        faults.append("audience: say whom tokens must be for, else tokens for other services would count here")
    for role in [*settings.roles.values(), *([settings.role] if settings.role else [])]:
        if role not in RANK:
            faults.append(f"roles: there is no role {role!r}; there are {', '.join(RANK)}")
    if not 0 <= settings.leeway <= MAX_LEEWAY:
        faults.append(f"leeway: clocks differ by seconds; say 0 to {MAX_LEEWAY:.0f}, not {settings.leeway:g}")
    if settings.roles and not settings.role_claim:
        faults.append("role_claim: say which claim `roles` is about, such as groups")
    if not settings.role and not settings.roles:
        faults.append("role: nobody would be let in; say a role, or roles by a claim")
    return faults
