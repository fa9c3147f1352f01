"""What the web page needs of the API: the cookie, folders and files, output, documents, the state of the host."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.http.folders import files_matching, folders_at
from dragoman.host.http.reading_slots import MAX_DOCUMENTS, MAX_READING
from dragoman.host.settings import limit_names
from dragoman.transport.remote.server.auth import AuthRequest, Refused
from dragoman.web.assets import find_asset, page
from dragoman.web.cookie import check_base, cookie_token, set_cookie
from tests.host.http.test_app import Caller, hosted_app
from tests.host.memory_host import until

HOST = {"host": "127.0.0.1:7437"}


def with_cookie(at: Any, token: str, **headers: str) -> Any:
    """Call the app with a cookie."""

    async def call(method: str, path: str, body: Any = None) -> Any:
        return await Caller(at.app)(method, path, body, cookie=f"x=1; dragoman_7437={token}", **headers)

    return call


async def test_a_token_is_exchanged_for_a_cookie_that_only_our_page_may_use(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        token = at.tokens.create("cleo", "editor", seconds=600)[0]
        stranger = Caller(at.app)
        signed_in = await stranger("POST", "/api/sign-in", {"token": token, "base": "/tools/"})
        assert signed_in.json == {"user": "cleo", "role": "editor", "session": None, "page": "/tools/"}
        cookie = signed_in.headers["set-cookie"]
        assert cookie.startswith(f"dragoman_7437={token}; Path=/tools/; Max-Age=")
        assert cookie.endswith("; HttpOnly; SameSite=Strict")
        assert (await with_cookie(at, token)("GET", "/api/host")).json["user"] == "cleo"
        same = with_cookie(at, token, **{"sec-fetch-site": "same-origin"})
        assert (await same("GET", "/api/host")).status == 200
        # Pages of other sites, and of other ports of this machine, cannot use it.
        for site in ("cross-site", "same-site"):
            assert (await with_cookie(at, token, **{"sec-fetch-site": site})("GET", "/api/host")).status == 401
        foreign = with_cookie(at, token, origin="http://127.0.0.1:9999")
        assert (await foreign("POST", f"/api/sessions/{at.session}/name", {"name": "x"})).status == 403
        evil = await stranger("POST", "/api/sign-in", {"token": token, "base": "/"}, origin="http://evil")
        assert evil.status == 403
        # Wrong requests.
        assert (await stranger("POST", "/api/sign-in", {"token": "dgm_x", "base": "/"})).status == 401
        assert (await stranger("POST", "/api/sign-in", {"token": token})).status == 400
        assert (await stranger("POST", "/api/sign-in", {"token": token, "base": "/x; Domain=evil/"})).status == 400
        assert (await stranger("GET", "/api/sign-in")).status == 405
        signed_out = await stranger("POST", "/api/sign-out", {"base": "/"})
        assert "Max-Age=0" in signed_out.headers["set-cookie"]


async def test_a_link_has_a_path_of_its_own_and_no_more_than_its_session(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        link = at.tokens.create_share_link(at.session, "viewer", 600.0)[0]
        answer = await Caller(at.app)("POST", "/api/sign-in", {"token": link, "base": "/"})
        path = answer.json["page"]
        assert path == f"/link/{link.split('_')[1]}/"
        guest = with_cookie(at, link)
        assert (await guest("GET", f"{path}api/host")).json["session"] == at.session
        assert (await guest("GET", path)).body == page().body
        assert (await guest("GET", f"{path}api/status")).status == 403
        assert (await guest("GET", f"{path}api/folders")).status == 403
        assert (await guest("GET", f"{path}api/sessions/{at.session}/files?q=a")).status == 403
        assert (await guest("DELETE", f"{path}api/tokens/x")).status == 403
        assert (await guest("GET", f"{path}api/sessions/{at.session}/export")).status == 200


def test_a_cookie_is_secure_where_the_page_is() -> None:
    behind = AuthRequest(headers={"host": "office.example", "origin": "https://office.example"})
    assert set_cookie(behind, "dgm_x", "/", None).endswith("; Secure")
    assert set_cookie(AuthRequest(headers=HOST, is_secure=True), "dgm_x", "/", None).endswith("; Secure")
    assert "Secure" not in set_cookie(AuthRequest(headers=HOST), "dgm_x", "/", None)
    assert cookie_token(AuthRequest(headers={"host": "office.example", "cookie": "dragoman=abc"})) == "abc"
    with pytest.raises(Refused, match="cannot keep this token"):
        set_cookie(AuthRequest(headers=HOST), "x" * 5000, "/", None)
    with pytest.raises(Refused, match="base is the path"):
        check_base("//evil/\r\nx")


async def test_the_state_of_the_host_shows_tokens_only_to_its_owner(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        status = (await at.ann("GET", "/api/status")).json
        assert (status["sessions"], status["awake"], status["storeFault"]) == (1, 1, None)
        assert status["limits"]["rate"] == 1000
        assert list(status["limits"]) == limit_names()
        assert "tokens" not in status
        owner = Caller(at.app, at.tokens.create("owner", "admin")[0])
        listed = (await owner("GET", "/api/status")).json["tokens"]
        assert {token["user"] for token in listed} == {"ann", "ben", "owner"}
        assert "digest" not in json.dumps(listed)
        [ben] = [token["id"] for token in listed if token["user"] == "ben"]
        assert (await at.ann("DELETE", f"/api/tokens/{ben}")).status == 403
        assert (await owner("DELETE", f"/api/tokens/{ben}")).status == 200
        assert (await at.ben("GET", "/api/host")).status == 401
        assert (await owner("DELETE", "/api/tokens/nothing")).status == 404


async def test_sessions_are_exported_as_files(tmp_path: Path) -> None:
    async with hosted_app(tmp_path, documents={"markdown": lambda summary, lines: f"# {summary.title}"}) as at:
        place = f"/api/sessions/{at.session}/export"
        log = await at.ann("GET", place)
        assert log.headers["content-type"] == "application/x-ndjson"
        assert log.headers["content-disposition"] == "attachment"
        assert json.loads(log.body.splitlines()[0])["dragoman"] == "session"
        assert (await at.ann("GET", f"{place}?format=markdown")).body == b"# the roof leaks"
        assert (await at.ann("GET", f"{place}?format=pdf")).status == 400
        assert (await at.ben("GET", place)).status == 404


async def test_a_user_who_does_not_read_gets_few_answers_and_others_get_theirs(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        place = f"/api/sessions/{at.session}/log"
        guest = Caller(at.app, at.tokens.create_share_link(at.session, "viewer", 60.0)[0])
        guest.reads.clear()
        asked = [asyncio.create_task(guest("GET", place)) for _ in range(40)]
        await until(lambda: guest.begun == MAX_READING)
        for _ in range(20):  # time for more answers, if there were any
            assert (await at.ann("GET", place)).status == 200
        assert guest.begun == MAX_READING
        guest.reads.set()
        assert {each.status for each in await asyncio.gather(*asked)} == {200}
        assert (await guest("GET", place)).status == 200


async def test_documents_are_made_one_at_a_time_and_each_user_has_one(tmp_path: Path) -> None:
    go, started, rendering = threading.Event(), threading.Event(), []

    def render(summary: Any, lines: Any) -> str:
        rendering.append(1)
        started.set()
        go.wait(30)
        assert len(rendering) == 1
        rendering.clear()
        return "document"

    async with hosted_app(tmp_path, documents={"html": render}) as at:
        place = f"/api/sessions/{at.session}/export?format=html"
        guests = [Caller(at.app, at.tokens.create_share_link(at.session, "viewer", 60.0)[0]) for _ in range(5)]
        first = [asyncio.ensure_future(each("GET", place)) for each in (at.ann, *guests[:3])]
        await asyncio.to_thread(started.wait, 30)
        await until(lambda: len(at.app._api.document_slots._users) == MAX_DOCUMENTS)
        again = await at.ann("GET", place)
        assert (again.status, again.json["error"]["kind"]) == (429, "rate_limited")
        assert "your last document" in again.json["error"]["message"]
        assert (await guests[3]("GET", place)).status == 429
        go.set()
        assert [(each.status, each.body) for each in await asyncio.gather(*first)] == [(200, b"document")] * 4
        assert (await at.ann("GET", place)).status == 200
        assert (await at.ann("GET", f"/api/sessions/{at.session}/export?format=pdf")).status == 400
        assert (await at.ann("GET", place)).status == 200


async def test_a_session_says_what_it_is_doing(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        place = f"/api/sessions/{at.session}"
        assert (await at.ann("GET", place)).json["state"] == "idle"
        room = at.hosted.host.rooms[at.session]
        room.questions._refresh = lambda question: None  # type: ignore[method-assign]  # nobody answers it
        asked = asyncio.ensure_future(room.questions.ask("elicitation/create", Message("Which  color?")))
        await asyncio.sleep(0)
        shown = (await at.ann("GET", place)).json
        assert (shown["state"], shown["question"]) == ("asking", "Which color?")
        at.tokens.create_share_link(at.session, "viewer", 60.0)
        viewer = Caller(at.app, at.tokens.create_share_link(at.session, "viewer", 60.0)[0])
        assert "question" not in (await viewer("GET", place)).json
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert (await at.ann("GET", place)).json["state"] == "idle"
        missing = await at.ann("GET", f"{place}/terminals/term_0")
        assert (missing.status, missing.json["error"]["kind"]) == (404, "resource_not_found")


def test_folders_count_for_the_bound_of_a_search_for_files(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}" / "inside").mkdir(parents=True)
        (tmp_path / f"{number}" / "inside" / "file").write_text("")
    assert len(files_matching(str(tmp_path), "file")) == 10
    assert files_matching(str(tmp_path), "file", max_entries=20) == []
    assert len(files_matching(str(tmp_path), "file", max_entries=25)) == 5


class Message:
    """A form that an agent asks for."""

    mode = "form"

    def __init__(self, message: str) -> None:
        self.message = message


def test_folders_are_completed_under_the_roots_alone(tmp_path: Path) -> None:
    for name in ("open/src/lib", "open/.git", "closed", "open/node_modules/x"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "open" / "way-out").symlink_to(tmp_path / "closed")
    roots = [str(tmp_path / "open")]
    assert folders_at("", roots) == roots
    assert folders_at("", ()) == []
    assert folders_at(f"{tmp_path}/open/", roots) == [f"{tmp_path}/open/node_modules", f"{tmp_path}/open/src"]
    assert folders_at(f"{tmp_path}/open/s", roots) == [f"{tmp_path}/open/src"]
    assert folders_at(f"{tmp_path}/o", roots) == roots
    assert folders_at(f"{tmp_path}/closed/", roots) == []
    assert folders_at(f"{tmp_path}/open/../", roots) == []
    assert folders_at("/\0", roots) == roots
    assert f"{tmp_path}/closed" in folders_at(f"{tmp_path}/c", None)


def test_files_are_found_by_letters_of_their_path(tmp_path: Path) -> None:
    for name in ("src/roof.py", "src/room/leak.py", "docs/roof.md", "node_modules/roof.js", ".hidden/roof.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert files_matching(str(tmp_path), "roof") == ["src/roof.py", "docs/roof.md"]
    assert files_matching(str(tmp_path), "srlk") == ["src/room/leak.py"]
    assert files_matching(str(tmp_path), "zz") == []
    assert files_matching(str(tmp_path / "missing"), "a") == []


def test_only_files_of_the_page_are_served() -> None:
    assert find_asset("/web/../assets.py") is None
    assert find_asset("/web/app.js") is None
    body, headers = page().response("gzip, br")
    assert headers["content-encoding"] == "gzip"
    assert len(body) < len(page().body)
    assert "content-encoding" not in page().response("")[1]
