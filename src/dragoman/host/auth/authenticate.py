"""Authenticate requests to a host: by its own token, by a token of the issuer, or as the local owner."""

from __future__ import annotations

from dragoman.errors import StoreFault
from dragoman.host.auth.oidc import Oidc
from dragoman.host.auth.roles import ADMIN
from dragoman.host.auth.token_calls import TokenCalls
from dragoman.host.auth.tokens import HOW_TO_CREATE, PREFIX, Token
from dragoman.transport.remote.server.auth import (
    Authenticate,
    AuthRequest,
    Principal,
    Refused,
    bearer_token,
    unauthorized_error,
)
from dragoman.transport.remote.server.origin import needs_proof


class Authenticator:
    """Authenticates requests. `local` handles requests without a token; None refuses them."""

    def __init__(self, tokens: TokenCalls, oidc: Oidc | None = None, local: Authenticate | None = None) -> None:
        self._tokens = tokens
        self.oidc = oidc
        self._local = local

    async def __call__(self, request: AuthRequest) -> Principal:
        """Return who makes this request. Raise Refused, which says what is missing."""
        text = bearer_token(request)
        if not text:
            if self._local is None:
                raise unauthorized_error(f"send a token: Authorization: Bearer TOKEN; {HOW_TO_CREATE}")
            return await self._local(request)
        if text.startswith(PREFIX) or self.oidc is None:
            return await self._authenticate_token(text, request)
        found = await self.oidc.verify(text)
        if found.user != self.oidc.owner and await self._tokens.is_user(found.user):
            # A user who can choose their name at the issuer must not become somebody who has a token.
            raise Refused(
                403,
                f"{found.user} is a user with a token of this host; use that token, or ask the owner of the host to "
                "create it under another name",
            )
        return Principal(user=found.user, role=found.role, expires_at=found.expires, address=request.address)

    async def _authenticate_token(self, text: str, request: AuthRequest) -> Principal:
        try:
            token = await self._tokens.verify(text)
            if self._tokens.is_use_note_due(token):
                await self._note_use(token)
        except StoreFault as fault:
            raise Refused(503, fault.message) from None
        return Principal(
            user=token.user,
            role=token.role,
            session=token.session,
            expires_at=token.expires,
            address=request.address,
            is_local=self._is_proof(token, request),
            token_id=token.id,
        )

    def _is_proof(self, token: Token, request: AuthRequest) -> bool:
        """Whether this token proves that a connection is the owner's, where the system does not tell."""
        is_owner = token.session is None and token.role == ADMIN and token.user == self._tokens.owner
        return self._local is not None and is_owner and needs_proof(request)

    async def _note_use(self, token: Token) -> None:
        try:
            await self._tokens.note_use(token)
        except StoreFault:
            pass  # a full disk locks nobody out: the time of use is only information
