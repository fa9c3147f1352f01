"""Who may connect to a host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.auth.authenticate import Authenticator
from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.oidc import TokenIdentity
from dragoman.host.auth.token_calls import FileTokens
from dragoman.host.auth.tokens import Tokens
from dragoman.transport.remote.server.auth import BEARER_SUBPROTOCOL_PREFIX, AuthRequest, Principal, Refused


async def as_owner(auth_request: AuthRequest) -> Principal:
    return Principal(user="owner", is_local=True, address=auth_request.address)


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(HostDatabase(str(tmp_path / "host.db"), "owner"))


def auth_request(admission: Authenticator, **parts: Any) -> Principal:
    return asyncio.run(admission(AuthRequest(address="127.0.0.1", **parts)))


def test_a_token_is_accepted_in_every_place_it_can_be_sent(tokens: Tokens) -> None:
    text, created = tokens.create("ann", "editor", seconds=60)
    admission = Authenticator(FileTokens(tokens))
    for parts in (
        {"headers": {"authorization": f"Bearer {text}"}},
        {"query": {"token": text}},
        {"headers": {"sec-websocket-protocol": f"acp, {BEARER_SUBPROTOCOL_PREFIX}{text}"}},
    ):
        principal = auth_request(admission, **parts)
        assert (principal.user, principal.role, principal.is_local) == ("ann", "editor", False)
        assert (principal.token_id, principal.expires_at) == (created.id, created.expires)
    assert tokens.list_tokens()[0].used is not None


def test_without_a_token_only_the_local_owner_is_accepted_and_only_if_allowed(tokens: Tokens) -> None:
    assert auth_request(Authenticator(FileTokens(tokens), local=as_owner)).is_local
    with pytest.raises(Refused) as caught:
        auth_request(Authenticator(FileTokens(tokens)))
    assert caught.value.status == 401
    assert "dragoman tokens create" in caught.value.message


def test_a_wrong_token_is_refused_for_the_local_owner_too(tokens: Tokens) -> None:
    with pytest.raises(Refused) as caught:
        auth_request(Authenticator(FileTokens(tokens), local=as_owner), headers={"authorization": "Bearer nonsense"})
    assert caught.value.status == 401


def test_where_the_system_does_not_tell_an_admin_token_of_the_owner_is_the_proof(tokens: Tokens) -> None:
    def is_owner(text: str, uid: int | None = None) -> bool:
        admission = Authenticator(FileTokens(tokens), local=as_owner)
        return auth_request(admission, query={"token": text}, socket_cache={"uid": uid}).is_local

    proof, _ = tokens.create("owner", "admin")
    assert is_owner(proof)
    assert not is_owner(proof, uid=0), "where the system tells, it decides"
    for user, role in (("owner", "editor"), ("ann", "admin")):
        assert not is_owner(tokens.create(user, role)[0])


class Issuer:
    """An issuer that vouches for every name."""

    owner = "owner"

    async def verify(self, text: str) -> TokenIdentity:
        return TokenIdentity(user=text, role="editor", expires=1.0)


def test_a_user_of_the_issuer_cannot_be_somebody_with_a_token(tokens: Tokens) -> None:
    admission = Authenticator(FileTokens(tokens), Issuer())  # type: ignore[arg-type]
    _, created = tokens.create("ann", "admin")
    tokens.revoke(created.id)
    tokens.create_share_link("s1", "viewer", 60, name="eve")
    for user in ("ben", "owner", "eve"):  # the issuer itself decides who is the owner
        assert auth_request(admission, query={"token": user}).user == user
    with pytest.raises(Refused, match="ann is a user with a token of this host") as caught:
        auth_request(admission, query={"token": "ann"})
    assert caught.value.status == 403


def test_a_share_link_gives_access_to_its_session_only(tokens: Tokens) -> None:
    text, _ = tokens.create_share_link("s1", "viewer", 60, name="eve")
    principal = auth_request(Authenticator(FileTokens(tokens), local=as_owner), query={"token": text})
    assert (principal.session, principal.role, principal.user) == ("s1", "viewer", "eve (guest)")
