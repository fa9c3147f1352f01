"""Who is let in at the door of a host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.auth.authenticate import Authenticator
from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.tokens import Tokens
from dragoman.transport.remote.server.auth import BEARER_SUBPROTOCOL_PREFIX, AuthRequest, Principal, Refused


async def as_owner(knock: AuthRequest) -> Principal:
    return Principal(user="owner", is_local=True, address=knock.address)


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(HostDatabase(str(tmp_path / "host.db"), "owner"))


def knock(admission: Authenticator, **parts: Any) -> Principal:
    return asyncio.run(admission(AuthRequest(address="127.0.0.1", **parts)))


def test_a_token_counts_wherever_it_is_brought(tokens: Tokens) -> None:
    text, made = tokens.create("ann", "editor", seconds=60)
    admission = Authenticator(tokens)
    for parts in (
        {"headers": {"authorization": f"Bearer {text}"}},
        {"query": {"token": text}},
        {"headers": {"sec-websocket-protocol": f"acp, {BEARER_SUBPROTOCOL_PREFIX}{text}"}},
    ):
        visitor = knock(admission, **parts)
        assert (visitor.user, visitor.role, visitor.is_local) == ("ann", "editor", False)
        assert (visitor.token_id, visitor.expires_at) == (made.id, made.expires)
    assert tokens.list_tokens()[0].used is not None


def test_without_a_token_only_the_owner_is_let_in_and_only_where_that_is_allowed(tokens: Tokens) -> None:
    assert knock(Authenticator(tokens, local=as_owner)).is_local
    with pytest.raises(Refused) as caught:
        knock(Authenticator(tokens))
    assert caught.value.status == 401
    assert "dragoman tokens create" in caught.value.message


def test_a_wrong_token_is_not_made_good_by_being_local(tokens: Tokens) -> None:
    with pytest.raises(Refused) as caught:
        knock(Authenticator(tokens, local=as_owner), headers={"authorization": "Bearer nonsense"})
    assert caught.value.status == 401


def test_a_share_link_is_for_its_session_alone(tokens: Tokens) -> None:
    text, _ = tokens.create_share_link("s1", "viewer", 60, name="eve")
    visitor = knock(Authenticator(tokens, local=as_owner), query={"token": text})
    assert (visitor.session, visitor.role, visitor.user) == ("s1", "viewer", "eve (guest)")
