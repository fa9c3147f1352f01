"""Who is let in at the door of a host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.auth.authenticate import Admission
from dragoman.host.auth.database import Register
from dragoman.host.auth.tokens import Tokens
from dragoman.transport.remote.server.auth import SUBPROTOCOL, Knock, Refused, Visitor


async def as_owner(knock: Knock) -> Visitor:
    return Visitor(user="owner", local=True, address=knock.address)


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(Register(str(tmp_path / "host.db"), "owner"))


def knock(admission: Admission, **parts: Any) -> Visitor:
    return asyncio.run(admission(Knock(address="127.0.0.1", **parts)))


def test_a_token_counts_wherever_it_is_brought(tokens: Tokens) -> None:
    text, made = tokens.create("ann", "editor", seconds=60)
    admission = Admission(tokens)
    for parts in (
        {"headers": {"authorization": f"Bearer {text}"}},
        {"query": {"token": text}},
        {"headers": {"sec-websocket-protocol": f"acp, {SUBPROTOCOL}{text}"}},
    ):
        visitor = knock(admission, **parts)
        assert (visitor.user, visitor.role, visitor.local) == ("ann", "editor", False)
        assert (visitor.token, visitor.expires) == (made.id, made.expires)
    assert tokens.listed()[0].used is not None


def test_without_a_token_only_the_owner_is_let_in_and_only_where_that_is_allowed(tokens: Tokens) -> None:
    assert knock(Admission(tokens, local=as_owner)).local
    with pytest.raises(Refused) as caught:
        knock(Admission(tokens))
    assert caught.value.status == 401
    assert "dragoman tokens create" in caught.value.message


def test_a_wrong_token_is_not_made_good_by_being_local(tokens: Tokens) -> None:
    with pytest.raises(Refused) as caught:
        knock(Admission(tokens, local=as_owner), headers={"authorization": "Bearer nonsense"})
    assert caught.value.status == 401


def test_a_share_link_is_for_its_session_alone(tokens: Tokens) -> None:
    text, _ = tokens.share("s1", "viewer", 60, name="eve")
    visitor = knock(Admission(tokens, local=as_owner), query={"token": text})
    assert (visitor.session, visitor.role, visitor.user) == ("s1", "viewer", "eve (guest)")
