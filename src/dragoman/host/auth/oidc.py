"""Verify bearer tokens of an OpenID Connect issuer: JWTs signed with the keys that the issuer publishes.

Claims give the user and the role, as configured. Needs PyJWT[crypto], which comes with the extra `host`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from dragoman.config.host_section import IssuerSection
from dragoman.errors import ConfigFault
from dragoman.host.auth.jwks import Fetch, Jwks, is_secure_url
from dragoman.host.auth.roles import RANK
from dragoman.host.auth.tokens import USER_NAME
from dragoman.transport.remote.server.auth import Refused, unauthorized_error

# Public-key signatures only: with a shared secret (HS*) or none, whoever reads the published keys could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")

# Which key type belongs to which algorithm, so that a token cannot choose how its key is used.
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}

# The highest allowed difference between clocks that can be configured. Seconds.
MAX_LEEWAY = 600.0

# A token is a few kilobytes. Longer ones are not read.
MAX_TOKEN_LENGTH = 16 * 1024


class TokenIdentity(Struct, frozen=True, kw_only=True):
    """Who a token is for."""

    user: str
    role: str
    expires: float


class Oidc:
    """One issuer, and what its tokens mean here."""

    def __init__(
        self,
        settings: IssuerSection,
        owner: str = "",
        *,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.time,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """Create it from valid settings. `report` gets the reason when keys cannot be fetched."""
        faults = settings_faults(settings)
        if faults:
            raise ConfigFault(faults)
        self._settings = settings
        self.owner = owner
        self._keys = Jwks(settings.issuer, fetch=fetch, clock=clock, report=report or (lambda _: None))

    async def verify(self, text: str) -> TokenIdentity:
        """Return who this token is for. Raise Refused unless it is valid."""
        import jwt

        settings = self._settings
        if len(text) > MAX_TOKEN_LENGTH:
            raise unauthorized_error("this token is too long")
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise unauthorized_error("this is neither a token of this host nor one of its issuer") from None
        if "crit" in header:  # critical headers that we do not understand (RFC 7515, 4.1.11)
            raise unauthorized_error("this token has critical headers (crit) that this host does not support")
        algorithm, id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise unauthorized_error(
                f"tokens must be signed with a key of {settings.issuer} ({ALGORITHMS[0]} or similar)"
            )
        key = await self._keys.find_key(id if isinstance(id, str) else "")
        if key.key_type != _KEY_TYPES[algorithm[:2]] or (key.algorithm and key.algorithm != algorithm):
            raise unauthorized_error("the algorithm of this token does not match its key")
        try:
            claims = jwt.decode(
                text,
                key.public,
                algorithms=[algorithm],
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=settings.leeway,
                options={"require": ["exp", "iss", "aud", settings.user]},
            )
            expires = float(claims["exp"]) + settings.leeway
        except jwt.ExpiredSignatureError:
            raise unauthorized_error("this token has expired; sign in again") from None
        except jwt.InvalidAudienceError:
            raise unauthorized_error(f"this token is not for the audience {settings.audience}") from None
        except jwt.InvalidIssuerError:
            raise unauthorized_error(f"this token is not from the issuer {settings.issuer}") from None
        except (jwt.PyJWTError, ValueError, OverflowError, TypeError, RecursionError) as error:
            raise unauthorized_error(f"this token is not valid: {error}") from None
        return self._identity(claims, expires)

    def _identity(self, claims: Mapping[str, Any], expires: float) -> TokenIdentity:
        settings = self._settings
        name = claims.get(settings.user)
        if not isinstance(name, str) or USER_NAME.fullmatch(name) is None:
            raise unauthorized_error(f"the claim {settings.user} of this token is not a valid user name")
        if settings.user == "email" and claims.get("email_verified", True) not in (True, "true"):
            raise unauthorized_error("the issuer has not verified this email address")
        if settings.owner and name == settings.owner:
            return TokenIdentity(user=self.owner or name, role="admin", expires=expires)
        if name == self.owner:
            # A user who can choose their name at the issuer must not become the owner of this host by it.
            raise Refused(403, f"{name} is the owner of this host; if that is you, set `owner` in [host.issuer]")
        found = [settings.role] if settings.role else []
        value_list = _claim(claims, settings.role_claim)
        for value in value_list if isinstance(value_list, list) else [value_list]:
            if isinstance(value, str) and value in settings.roles:
                found.append(settings.roles[value])
        if not found:
            raise Refused(
                403, f"{name} has no role here; the owner of this host gives roles by the claim {settings.role_claim}"
            )
        return TokenIdentity(user=name, role=max(found, key=RANK.__getitem__), expires=expires)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, which may have dots, or by a path of names."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def settings_faults(settings: IssuerSection) -> list[str]:
    """Return what is wrong with the settings."""
    faults = []
    if not is_secure_url(settings.issuer):
        faults.append(f"issuer: {settings.issuer!r} must be an https URL (http only on this machine)")
    if not settings.audience:
        faults.append("audience: set the audience of the tokens, else tokens for other services would be accepted")
    for role in [*settings.roles.values(), *([settings.role] if settings.role else [])]:
        if role not in RANK:
            faults.append(f"roles: there is no role {role!r}; the roles are {', '.join(RANK)}")
    if not 0 <= settings.leeway <= MAX_LEEWAY:
        faults.append(f"leeway: must be 0 to {MAX_LEEWAY:.0f} seconds, not {settings.leeway:g}")
    if settings.roles and not settings.role_claim:
        faults.append("role_claim: set the claim that `roles` refers to, such as groups")
    if not settings.role and not settings.roles:
        faults.append("role: nobody could log in; set a role, or roles by a claim")
    return faults
