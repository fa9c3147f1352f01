"""Session names belong to users: those of one user are invisible to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ProtocolError
from dragoman.host import session_names
from dragoman.store.contract import Summary
from dragoman.store.summary import check_new_name
from tests.host.http.test_app import Caller, HostedApp, hosted_app
from tests.host.memory_host import open_session


def stored_names(id: str, name: str) -> Summary:
    return Summary(session_id=id, entries=1, updated_at="", name=name)


def displayed_names(user: str | None, *stored: str) -> list[str | None]:
    return [
        one.name
        for one in session_names.with_display_names([stored_names(name, name) for name in stored], user, "root")
    ]


def test_users_have_separate_names() -> None:
    users = [
        "ann",
        "ann/x",
        "ann~",
        "ann%2Fx",
        "a" * 41,
        "a" * 42,
        "https://id.example/ann",
        "",
        " ann",
        "ann\n",
        "Ann",
    ]
    spaces = {session_names.namespace(user) for user in users}
    assert len(spaces) == len(users)
    assert all(space.index("/") == len(space) - 1 <= 40 for space in spaces)
    for user in users:
        stored = session_names.stored_name("secret", user)
        assert displayed_names(user, stored) == ["secret"]
        assert [displayed_names(other, stored) for other in users if other != user] == [[stored]] * (len(users) - 1)


@pytest.mark.parametrize(
    "name",
    ["ann/secret", "x" * 97, "a\nb", "x$(id)", "x`id`", "dda3a510-0a1b-4c2d-8e3f-001122334455", "DDA3A510-0A1B-4C2D"],
)
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(ProtocolError, match=r"name|'/'|characters"):
        session_names.stored_name(name, "ann")


def test_a_session_of_another_user_that_is_not_there_is_explained() -> None:
    with pytest.raises(ProtocolError, match=r"'ben/roof' is no session that you may see, .* ask that user to share it"):
        session_names.stored_name("ben/roof", "ann")


@pytest.mark.parametrize("user", ["auth0|123", "a$(id)", "a`b", "a b'c", "-rf", "a=b"])
def test_a_name_prefix_has_only_allowed_characters(user: str) -> None:
    stored = session_names.stored_name("roof", user)
    assert check_new_name(stored) == stored
    assert displayed_names(user, stored, f"{user}/of before") == ["roof", "of before"]
    assert displayed_names("ben", f"{user}/of before") == [f"{user}/of before"]


def test_the_owner_names_sessions_freely_and_sees_stored_names() -> None:
    assert session_names.stored_name("a/b", None) == "a/b"
    assert displayed_names(None, "board", "ann/board") == ["board", "ann/board"]
    assert displayed_names("ben", "board", "ann/board") == ["board", "ann/board"]
    assert displayed_names("ben", "board", "ben/board", "ann/board") == ["root/board", "board", "ann/board"]


async def test_two_users_can_use_the_same_name_without_learning_of_each_other(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at, at.hosted.client("ben", principal={"is_local": False}, cwd="/") as remote:
        at.hosted.host.roots_of = lambda _: None
        theirs = (await open_session(remote, tmp_path)).id
        ann, ben = await _rename(at.ann, at.session, "secret"), await _rename(at.ben, theirs, "secret")
        assert (ann, ben) == ((200, "secret"), (200, "secret"))
        assert (await at.ben("GET", "/api/sessions/secret")).json["sessionId"] == theirs
        assert (await at.ann("GET", "/api/sessions/secret")).json["sessionId"] == at.session
        assert (await at.ben("GET", "/api/sessions/ann%2Fsecret")).status == 404
        for name in (at.session, at.session[:20], "ann/secret"):
            refused = await at.ben("POST", f"/api/sessions/{theirs}/name", {"name": name})
            assert refused.status == 400
            assert "already used" not in refused.json["error"]["message"]
        assert {one.name for one in await at.hosted.host.store.sessions()} == {"ann/secret", "ben/secret"}
        await _shared(at)
        assert (await at.ben("GET", "/api/sessions/ann/secret")).json["sessionId"] == at.session
        assert {info.title for info in (await remote.list_sessions()).sessions} == {"secret", "ann/secret"}
        owner = Caller(at.app, at.tokens.create("owner", "admin")[0])
        assert (await owner("GET", "/api/sessions")).json == {"sessions": []}
        copied = [
            await at.ben("POST", f"/api/sessions/{theirs}/fork", {"name": name}) for name in ("a/b", "secret", "copy")
        ]
        assert [answer.status for answer in copied] == [400, 400, 200]
        assert copied[2].json["name"] == "copy"
        assert len((await at.ben("GET", "/api/sessions")).json["sessions"]) == 3
        # Not even a name of the owner is revealed.
        await at.hosted.host.store.rename(at.session, "ben/attic")
        await at.ann("POST", f"/api/sessions/{at.session}/members", {"user": "ben", "role": None})
        refused = await at.ben("POST", f"/api/sessions/{theirs}/name", {"name": "attic"})
        assert (refused.status, at.session in refused.body.decode()) == (400, False)


async def test_a_name_of_the_owner_is_found_with_and_without_the_prefix(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        await at.hosted.host.store.rename(at.session, "board")
        for name in ("board", "owner/board"):
            assert (await at.ben("GET", f"/api/sessions/{name}")).status == 404
        await at.ann("POST", f"/api/sessions/{at.session}/members", {"user": "ben", "role": "viewer"})
        for name in ("board", "owner/board"):
            assert (await at.ben("GET", f"/api/sessions/{name}")).json["sessionId"] == at.session


async def _rename(caller: Caller, session: str, name: str) -> tuple[int, Any]:
    answer = await caller("POST", f"/api/sessions/{session}/name", {"name": name})
    return answer.status, answer.json.get("name")


async def _shared(at: HostedApp) -> None:
    created = await at.ann("POST", "/api/sessions/secret/members", {"user": "ben", "role": "viewer"})
    assert created.status == 200


async def test_an_empty_session_can_be_deleted_with_any_token_that_can_open_sessions(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at, at.hosted.client("ann") as remote:
        empty = (await open_session(remote, tmp_path)).id
        link = (await at.ann("POST", f"/api/sessions/{empty}/shares", {"role": "editor"})).json["token"]
        callers = [Caller(at.app, token) for token in (link, at.tokens.create("ann", "viewer")[0])]
        editing = Caller(at.app, at.tokens.create("ann", "editor")[0])
        assert [(await each("DELETE", f"/api/sessions/{empty}")).status for each in callers] == [403, 403]
        assert (await editing("DELETE", f"/api/sessions/{at.session}")).status == 403
        assert (await editing("DELETE", f"/api/sessions/{empty}")).status == 200
