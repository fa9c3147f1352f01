"""The host as an ASGI app, called without a server: the API, the pages, and who may see what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.tokens import Tokens
from dragoman.host.http.app import HostApp
from dragoman.store.contract import Draft
from dragoman.transport.remote.server.limits import ServerLimits
from tests.host.memory_host import Hosted, open_session, running_host


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Caller:
    """A user who calls the app with a token."""

    def __init__(self, app: HostApp, token: str = "") -> None:
        self._app = app
        self.reads = asyncio.Event()  # not set: the answer is not taken from the host
        self.reads.set()
        self.begun = 0  # answers
        self._token = token
        self.root = ""  # where the app is mounted

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        place, _, query = f"{self.root}{path}".partition("?")
        given = {"host": "127.0.0.1:7437", **headers}
        if self._token:
            given["authorization"] = f"Bearer {self._token}"
        scope = {
            "type": "http",
            "method": method,
            "path": place,
            "root_path": self.root,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("192.0.2.7", 1234),
            "server": ("127.0.0.1", 7437),
            "scheme": "http",
        }
        sent: list[Any] = []
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()

        async def receive() -> Any:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)
            self.begun += message["type"] == "http.response.start"
            await self.reads.wait()

        await self._app(scope, receive, send)
        shown = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answered(sent[0]["status"], shown, b"".join(each.get("body", b"") for each in sent[1:]))


class HostedApp(NamedTuple):
    """A host app, and users with tokens."""

    hosted: Hosted
    app: HostApp
    tokens: Tokens
    ann: Caller
    ben: Caller
    session: str  # ann's


@asynccontextmanager
async def hosted_app(tmp_path: Path, **options: Any) -> AsyncIterator[HostedApp]:
    with HostDatabase(str(tmp_path / "host.db"), "owner") as register:
        tokens = Tokens(register)
        async with running_host(session_roles=register) as hosted:
            app = HostApp(hosted.host, tokens=tokens, local=None, **options)
            callers = [Caller(app, tokens.create(user, "admin")[0]) for user in ("ann", "ben")]
            async with hosted.client("ann") as remote:
                session = await open_session(remote, tmp_path)
                await session.ask("the roof leaks")
                yield HostedApp(hosted, app, tokens, callers[0], callers[1], session.id)
            await app.close()


async def test_the_api_reads_and_changes_visible_sessions(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        place = f"/api/sessions/{quote(at.session)}"
        [listed] = (await at.ann("GET", "/api/sessions")).json["sessions"]
        assert (listed["sessionId"], listed["role"], listed["awake"]) == (at.session, "admin", True)
        assert [member["user"] for member in listed["members"]] == ["ann"]
        lines = (await at.ann("GET", f"{place}/log")).body.splitlines()
        assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
        after = (await at.ann("GET", f"{place}/log?after=2&limit=1")).body.splitlines()
        assert after == [lines[2]]
        assert (await at.ann("GET", "/api/search?q=roof")).json["hits"][0]["sessionId"] == at.session
        assert (await at.ann("POST", f"{place}/name", {"name": "roof"})).json["name"] == "roof"
        assert (await at.ann("GET", "/api/sessions/roof")).json["sessionId"] == at.session
        copy = (await at.ann("POST", f"{place}/fork", {})).json["sessionId"]
        assert (await at.ann("DELETE", f"/api/sessions/{copy}")).status == 200
        assert (await at.ann("DELETE", f"/api/sessions/{copy}")).status == 404
        about = (await at.ann("GET", "/api/host")).json
        assert (about["user"], about["agents"], about["roots"]) == ("ann", ["talker"], [])


async def test_another_users_session_is_not_found_until_it_is_shared(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        place = f"/api/sessions/{at.session}"
        for method, path in (
            ("GET", place),
            ("GET", f"{place}/log"),
            ("GET", f"{place}/shares"),
            ("POST", f"{place}/name"),
            ("POST", f"{place}/fork"),
            ("POST", f"{place}/members"),
            ("POST", f"{place}/shares"),
            ("DELETE", place),
        ):
            refused = await at.ben(method, path, {} if method == "POST" else None)
            missing = await at.ben(method, path.replace(at.session, "no-such-session"), {})
            assert (refused.status, missing.status) == (404, 404), path
            assert refused.json["error"]["kind"] == missing.json["error"]["kind"]
        assert (await at.ben("GET", "/api/sessions")).json == {"sessions": []}
        assert (await at.ben("GET", "/api/search?q=roof")).json == {"hits": []}
        assert at.session[:8] not in (await at.ben("GET", "/status")).body.decode()
        created = await at.ann("POST", f"{place}/members", {"user": "ben", "role": "viewer"})
        assert created.json["members"] == {"ann": "admin", "ben": "viewer"}
        assert (await at.ben("GET", f"{place}/log")).status == 200
        for method, path in (("POST", f"{place}/name"), ("POST", f"{place}/shares"), ("DELETE", place)):
            refused = await at.ben(method, path, {} if method == "POST" else None)
            assert (refused.status, refused.json["error"]["kind"]) == (403, "permission_denied")


async def test_the_opener_of_a_session_may_name_it_with_an_editor_token(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        place = f"/api/sessions/{at.session}"
        editing = Caller(at.app, at.tokens.create("ann", "editor")[0])
        assert (await editing("POST", f"{place}/name", {"name": "roof"})).json["name"] == "roof"
        refused = await editing("DELETE", place)
        assert refused.status == 403
        assert "with this token" in refused.json["error"]["message"]
        reading = Caller(at.app, at.tokens.create("ann", "viewer")[0])
        assert (await reading("POST", f"{place}/name", {"name": "loft"})).status == 403
        await at.ann("POST", f"{place}/members", {"user": "ben", "role": "editor"})
        assert (await at.ben("POST", f"{place}/name", {"name": "loft"})).status == 403
        link = (await at.ann("POST", f"{place}/shares", {"role": "editor", "name": "ann"})).json["token"]
        assert (await Caller(at.app, link)("POST", f"{place}/name", {"name": "loft"})).status == 403


async def test_the_owner_sees_sessions_nobody_opened_also_from_remote(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        draft = Draft(kind="opened", actor="user", time="2026-01-01T00:00:00Z", body={"cwd": "/"})
        await at.hosted.host.store.append("old", [draft])
        owner = Caller(at.app, at.tokens.create("owner", "admin")[0])
        assert [one["sessionId"] for one in (await owner("GET", "/api/sessions")).json["sessions"]] == ["old"]
        assert [one["sessionId"] for one in (await at.ann("GET", "/api/sessions")).json["sessions"]] == [at.session]


async def test_a_share_link_opens_only_its_session_until_it_is_revoked(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        place = f"/api/sessions/{at.session}"
        created = (await at.ann("POST", f"{place}/shares", {"role": "editor", "seconds": 60, "name": "eve"})).json
        guest = Caller(at.app, created["token"])
        assert (await guest("GET", "/api/host")).json["session"] == at.session
        [seen] = (await guest("GET", "/api/sessions")).json["sessions"]
        assert (seen["sessionId"], seen["role"]) == (at.session, "editor")
        assert (await guest("POST", f"{place}/fork", {})).status == 403
        assert (await guest("POST", f"{place}/shares", {})).status == 403
        assert (await guest("GET", "/metrics")).status == 403
        [share] = (await at.ann("GET", f"{place}/shares")).json["shares"]
        assert "token" not in share
        assert (await at.ann("DELETE", f"{place}/shares/{share['id']}")).status == 200
        assert (await guest("GET", "/api/sessions")).status == 401
        for wrong in ({"role": "admin"}, {"seconds": 0}, {"seconds": 1e12}, {"seconds": True}, {"name": 7}):
            assert (await at.ann("POST", f"{place}/shares", wrong)).status == 400, wrong


async def test_connections_with_a_revoked_token_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.host.http.app.REVOCATION_CHECK_INTERVAL", 0.01)

    async with hosted_app(tmp_path) as at:
        text, created = at.tokens.create("cid", "viewer")
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        started = await Caller(at.app, text)("POST", "/acp", hello, **headers)
        assert started.status == 200, started.body
        assert at.app.metrics.value("connections") == 1
        at.tokens.revoke(created.id)
        while b"connections_open 0" not in (await at.ann("GET", "/metrics")).body:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_the_pages_show_sessions_and_no_content(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        page = await at.ann("GET", "/status")
        text = page.body.decode()
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert at.session[:8] in text
        assert "awake" in text
        assert "ann (admin)" in text
        assert "roof" not in text
        assert "leak" not in text
        assert (await at.ann("HEAD", "/status")).body == b""
        at.ann.root = "/tools/host"  # mounted in another app
        assert b"<code>/tools/host/acp</code>" in (await at.ann("GET", "/status")).body
        assert (await at.ann("GET", "/api/host")).status == 200
        at.ann.root = ""
        metrics = (await at.ann("GET", "/metrics")).body.decode()
        assert metrics.endswith("# EOF\n")
        assert "dragoman_prompts_total 1" in metrics
        assert "dragoman_agent_starts_total 1" in metrics
        assert "dragoman_sessions_awake 1" in metrics


async def test_without_a_token_only_health_checks_and_the_files_of_the_page_are_served(tmp_path: Path) -> None:
    async with hosted_app(tmp_path) as at:
        stranger = Caller(at.app)
        assert (await stranger("GET", "/healthz")).json == {"status": "ok"}
        assert (await stranger("GET", "/readyz")).json == {"status": "ready"}
        assert b'<script type="module"' in (await stranger("GET", "/")).body
        for path in ("/status", "/metrics", "/api/sessions", "/api/host", "/acp"):
            refused = await stranger("GET", path)
            assert refused.status == 401, path
            assert refused.headers["www-authenticate"].startswith("Bearer")
        assert 'refusals_total{reason="auth_required"} 5' in (await at.ann("GET", "/metrics")).body.decode()
        await at.app.close()
        assert (await stranger("GET", "/readyz")).status == 503


async def test_foreign_origins_and_wrong_requests_are_refused(tmp_path: Path) -> None:
    async with hosted_app(tmp_path, limits=ServerLimits(rate=1.0, burst=20)) as at:
        assert (await at.ann("GET", "/api/sessions", origin="https://evil.example")).status == 403
        assert (await at.ann("GET", "/", host="evil.example")).status == 421
        assert (await at.ann("POST", "/")).status == 405
        assert (await at.ann("POST", "/api/sessions")).status == 404
        assert (await at.ann("POST", f"/api/sessions/{at.session}/name", b"{")).status == 400
        assert (await at.ann("POST", f"/api/sessions/{at.session}/name", b"[]")).status == 400
        assert (await at.ann("POST", f"/api/sessions/{at.session}/name", b"x" * 70_000)).status == 413
        assert (await at.ann("GET", f"/api/sessions/{at.session}/log?after=x")).status == 400
        statuses = [(await at.ann("GET", "/api/host")).status for _ in range(20)]
        assert statuses[-1] == 429


async def test_a_body_that_is_nested_without_end_is_refused_as_no_json(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosted_app(tmp_path) as at:
        for path in ("/api/sign-in", f"/api/sessions/{at.session}/name"):
            answer = await at.ann("POST", path, b'{"a":' + b"[" * 50_000)
            assert answer.status == 400
    assert not caplog.records
