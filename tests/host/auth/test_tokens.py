"""Tokens and their database, as used by the host and `dragoman tokens`."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from dragoman.errors import ProtocolError, StoreFault
from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.tokens import Tokens
from dragoman.transport.remote.server.auth import Refused


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def register(tmp_path: Path) -> HostDatabase:
    return HostDatabase(str(tmp_path / "state" / "host.db"), "owner")


def refusal(tokens: Tokens, text: str) -> str:
    with pytest.raises(Refused) as caught:
        tokens.verify(text)
    assert caught.value.status == 401
    assert caught.value.headers["www-authenticate"].startswith("Bearer")
    assert not text or text not in caught.value.message
    return caught.value.message


def test_a_token_gives_its_user_access_with_its_role(register: HostDatabase) -> None:
    text, created = Tokens(register).create("ann", "viewer", label="laptop", maker="owner")
    found = Tokens(register).verify(text)
    assert (found.id, found.user, found.role, found.session) == (created.id, "ann", "viewer", None)


def test_only_a_digest_is_stored_and_only_the_owner_can_read_the_file(register: HostDatabase) -> None:
    text, _ = Tokens(register).create("ann")
    secret = text.split("_", 2)[2]  # it may contain another _
    folder = os.path.dirname(register.path)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600, name
        assert secret.encode() not in Path(path).read_bytes()


def test_a_token_of_another_host_is_refused(register: HostDatabase) -> None:
    tokens = Tokens(register)
    text, _ = tokens.create("ann")
    other = text[:-1] + ("A" if text[-1] != "A" else "B")
    for wrong in ("", "dgm_", text[4:], text + "x", other, text.replace("dgm_", "dgm_zzz")):
        assert "token" in refusal(tokens, wrong)


def test_an_expired_token_is_refused_and_says_so(register: HostDatabase) -> None:
    clock = Clock()
    tokens = Tokens(register, clock)
    text, created = tokens.create("ann", seconds=60)
    clock.now += 59
    assert tokens.verify(text).expires == created.expires
    clock.now += 1
    assert "expired" in refusal(tokens, text)
    assert not tokens.is_valid(created.id)


def test_a_revoked_token_is_refused_at_once_by_a_running_host(register: HostDatabase) -> None:
    text, created = Tokens(register).create("ann")
    with HostDatabase(register.path) as elsewhere:  # `dragoman tokens revoke` is another process
        assert Tokens(elsewhere).revoke(created.id).user == "ann"
    assert "revoked" in refusal(Tokens(register), text)
    assert Tokens(register).list_tokens()[0].state(created.created + 1) == "revoked"


def test_token_use_is_noted_but_not_every_time(register: HostDatabase) -> None:
    clock = Clock()
    tokens = Tokens(register, clock)
    text, created = tokens.create("ann")
    assert tokens.is_use_note_due(created)
    tokens.note_use(created)
    clock.now += 10
    assert not tokens.is_use_note_due(tokens.verify(text))
    clock.now += 60
    assert tokens.is_use_note_due(tokens.verify(text))


async def test_a_share_link_is_a_guest_token_for_one_session(register: HostDatabase) -> None:
    tokens = Tokens(register)
    text, _ = tokens.create_share_link("s1", "viewer", 3600, name="ann", maker="owner")
    found = tokens.verify(text)
    assert (found.session, found.role, found.user) == ("s1", "viewer", "ann (guest)")
    assert [token.id for token in tokens.list_tokens("s1")] == [found.id]
    assert not tokens.has_user_tokens()
    await register.remove_session("s1")
    assert "does not exist" in refusal(tokens, text)


@pytest.mark.parametrize(
    ("user", "role"),
    [("ann (guest)", "viewer"), ("", "viewer"), ("a b", "viewer"), ("a\n", "editor"), ("ann", "owner")],
)
def test_a_token_with_an_invalid_user_or_role_is_not_created(register: HostDatabase, user: str, role: str) -> None:
    with pytest.raises(ProtocolError):
        Tokens(register).create(user, role)


async def test_the_opener_of_a_session_is_its_admin_and_others_do_not_see_it(register: HostDatabase) -> None:
    await register.set_creator("s1", "ann")
    await register.set_creator("s1", "ben")  # too late
    assert await register.role_of("ann", "s1") == "admin"
    assert await register.role_of("ben", "s1") is None
    assert await register.role_of("owner", "s1") is None
    await register.set_role("s1", "ben", "viewer")
    assert await register.members_of("s1") == {"ann": "admin", "ben": "viewer"}
    assert await register.sessions_of("ben") == {"s1": "viewer"}
    await register.set_role("s1", "ben", None)
    assert await register.role_of("ben", "s1") is None


async def test_a_session_nobody_opened_belongs_to_the_owner_also_when_shared(register: HostDatabase) -> None:
    assert await register.role_of("owner", "old") == "admin"
    assert await register.role_of("ann", "old") is None
    await register.set_role("old", "ann", "editor")
    assert await register.members_of("old") == {"ann": "editor", "owner": "admin"}


def test_roles_survive_a_restart_of_the_host(tmp_path: Path) -> None:
    path = str(tmp_path / "host.db")
    with HostDatabase(path) as first:
        asyncio.run(first.set_creator("s1", "ann"))
    with HostDatabase(path) as again:
        assert asyncio.run(again.role_of("ann", "s1")) == "admin"


def test_a_file_of_another_program_or_of_a_newer_dragoman_is_refused(tmp_path: Path) -> None:
    for statement, why in (("PRAGMA application_id = 7", "unusable"), ("PRAGMA user_version = 99", "newer")):
        path = str(tmp_path / f"{why}.db")
        connection = sqlite3.connect(path)
        connection.executescript(f"CREATE TABLE t (x); {statement};")
        connection.close()
        with pytest.raises(StoreFault) as caught:
            HostDatabase(path)
        assert caught.value.why == why
