"""Tokens and roles in an engine: seen by every node, revoked on every node, without a secret."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from dragoman.errors import ProtocolError
from dragoman.host.auth import token_calls
from dragoman.host.auth.engine_roles import RecordRoles
from dragoman.host.auth.roles import SessionRoles
from dragoman.host.auth.token_calls import EngineTokens
from dragoman.host.http.app import REVOCATION_CHECK_INTERVAL
from dragoman.store.fleet import Engine
from dragoman.store.local_fleet import local_engine
from dragoman.store.memory import MemoryStore
from dragoman.transport.remote.server.auth import Refused


def engine() -> Engine:
    return local_engine("memory", MemoryStore(), [])


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def nodes(shared: Engine, clock: Callable[[], float] = time.time) -> tuple[EngineTokens, EngineTokens]:
    one = EngineTokens(shared.records, shared.signals, "owner", clock)
    return one, EngineTokens(shared.records, shared.signals, "owner", clock)


async def test_a_token_of_one_node_is_valid_on_another_and_its_secret_is_nowhere() -> None:
    one, other = nodes(shared := engine())
    text, created = await one.create("ann", "viewer", seconds=60, label="laptop")
    assert await other.verify(text) == created
    assert await other.is_user("ann")
    assert await other.highest_role("ann") == "viewer"
    assert await other.has_user_tokens()
    secret = text.split("_", 2)[2].encode()
    for kind in ("token", "token-user"):
        assert all(secret not in record.value for record in await shared.records.list_records(kind))
    with pytest.raises(Refused, match="does not exist"):
        await other.verify(f"{text[:-1]}{'a' if text[-1] != 'a' else 'b'}")
    with pytest.raises(Refused, match="not a token"):
        await other.verify("nonsense")


@pytest.mark.item("FL-22")
async def test_a_revoked_token_is_refused_at_once_by_the_signal_and_soon_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = nodes(shared := engine())
    text, created = await one.create("ann")
    assert await other.is_valid(created.id)
    monkeypatch.setattr(shared.signals, "send", _lose)
    await one.revoke(created.id)
    assert await other.is_valid(created.id), "the cache should still have it: this test shows nothing"
    assert token_calls.CACHE_SECONDS + REVOCATION_CHECK_INTERVAL < 10
    monkeypatch.setattr(token_calls, "CACHE_SECONDS", 0.0)
    assert not await other.is_valid(created.id)
    with pytest.raises(Refused, match="revoked"):
        await other.verify(text)
    assert (await one.revoke(created.id)).user == "ann"  # once more changes nothing
    with pytest.raises(ProtocolError, match="no token"):
        await one.revoke("nothere")


async def _lose(*_: object) -> None:
    """A signal that nobody hears."""


async def test_the_signal_empties_the_cache_of_every_node() -> None:
    one, other = nodes(engine())
    _, created = await one.create("ann")
    assert await other.is_valid(created.id)
    await one.revoke(created.id)
    await _next_turn()
    assert not await other.is_valid(created.id)


async def _next_turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_share_links_end_with_their_session_and_old_tokens_are_forgotten() -> None:
    clock = Clock()
    one, other = nodes(engine(), clock)
    text, link = await one.create_share_link("s1", "viewer", 3600, name="eve", maker="owner")
    assert (link.user, link.session) == ("eve (guest)", "s1")
    assert not await one.has_user_tokens()
    assert [token.id for token in await other.list_tokens("s1")] == [link.id]
    await one.note_use(link)
    assert not one.is_use_note_due((await other.list_tokens("s1"))[0])
    await one.remove_session("s1")
    await _next_turn()
    with pytest.raises(Refused):
        await other.verify(text)
    await one.create("old", seconds=1)
    clock.now += 200 * 86400
    await one.create("new")
    assert [token.user for token in await one.list_tokens()] == ["new"]


async def check_roles(roles: SessionRoles) -> None:
    assert await roles.role_of("owner", "s/1") == "admin"
    assert await roles.role_of("ann", "s/1") is None
    await roles.set_creator("s/1", "ann")
    await roles.set_creator("s/1", "eve")
    assert dict(await roles.members_of("s/1")) == {"ann": "admin"}
    assert await roles.role_of("owner", "s/1") is None
    await roles.set_role("s/1", "ben/x", "viewer")
    await roles.set_role("s2", "ben/x", "editor")
    assert dict(await roles.members_of("s2")) == {"owner": "admin", "ben/x": "editor"}
    assert dict(await roles.sessions_of("ben/x")) == {"s/1": "viewer", "s2": "editor"}
    assert list(await roles.sessions_closed_to("ann")) == ["s2"]
    await roles.set_role("s/1", "ben/x", None)
    assert await roles.role_of("ben/x", "s/1") is None
    with pytest.raises(ValueError, match="not a role"):
        await roles.set_role("s2", "ann", "king")
    await roles.remove_session("s2")
    assert dict(await roles.members_of("s2")) == {}
    assert dict(await roles.sessions_of("ben/x")) == {}


async def test_roles_as_records() -> None:
    shared = engine()
    tokens, _ = nodes(shared)
    await check_roles(RecordRoles(shared.records, shared.signals, tokens.remove_session, "owner"))
