"""The door of a host: who knocks is let in by a token of ours, by one of the issuer's, or as the owner on this machine.

Takes a Knock, gives a Visitor or raises Refused; an `Admit` of the endpoint. Below are tokens and issuer. What a
visitor may do in which session is the directory's matter.
"""

from __future__ import annotations

import asyncio

from dragoman.errors import StoreFault
from dragoman.host.auth.oidc import Issuer
from dragoman.host.auth.tokens import PREFIX, Token, Tokens
from dragoman.transport.remote.server.auth import Admit, Knock, Refused, Visitor, bearer, unauthorized


class Admission:
    """Lets visitors in; `local` is the way in without a token, None where there is none."""

    def __init__(self, tokens: Tokens, issuer: Issuer | None = None, local: Admit | None = None) -> None:
        self._tokens = tokens
        self._issuer = issuer
        self._local = local

    async def __call__(self, knock: Knock) -> Visitor:
        """Who this is; Refused says what to bring."""
        text = bearer(knock)
        if not text:
            if self._local is None:
                raise unauthorized("bring a token: Authorization: Bearer TOKEN; `dragoman tokens create` makes one")
            return await self._local(knock)
        if text.startswith(PREFIX) or self._issuer is None:
            return await self._by_token(text, knock)
        found = await self._issuer.check(text)
        return Visitor(user=found.user, role=found.role, expires=found.expires, address=knock.address)

    async def _by_token(self, text: str, knock: Knock) -> Visitor:
        try:
            token = self._tokens.check(text)
            if self._tokens.is_due(token):
                await asyncio.to_thread(self._noted, token)
        except StoreFault as fault:
            raise Refused(503, fault.message) from None
        return Visitor(
            user=token.user,
            role=token.role,
            session=token.session,
            expires=token.expires,
            address=knock.address,
            token=token.id,
        )

    def _noted(self, token: Token) -> None:
        try:
            self._tokens.note(token)
        except StoreFault:
            pass  # a full disk keeps nobody out: that it was used is only for people to see
