"""What each request gets from our endpoint: the status of docs/protocol/http.md, and a body that says what is wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from msgspec import structs

from dragoman.errors import Kind
from dragoman.transport.remote.server.auth import AuthRequest, Principal, bearer_token, unauthorized_error
from dragoman.transport.remote.server.limits import ServerLimits
from tests.transport.remote.module_server import INITIALIZE, NEW, Standing, prompt, standing

JSON = {"content-type": "application/json"}
HELLO, OPEN = json.dumps(INITIALIZE).encode(), json.dumps(NEW).encode()
EVENTS = {"accept": "text/event-stream"}

# A stream begins with a comment, so that no proxy holds its headers back.
FIRST_LINES = [": keepalive", ""]


@pytest.fixture(scope="module")
def server() -> Iterator[Standing]:
    with standing(limits=ServerLimits(body=100_000), origins=("https://editor.example",)) as there:
        yield there


@pytest.fixture(scope="module")
def client(server: Standing) -> Iterator[httpx.Client]:
    with server.connect() as made:
        yield made


@pytest.fixture(scope="module")
def known(server: Standing, client: httpx.Client) -> dict[str, str]:
    """The header of an open connection."""
    return server.initialized(client)


def fault(answer: httpx.Response) -> tuple[int, str]:
    """The status, and the kind in the body, which also has a message. The answer to a POST is a JSON-RPC response."""
    body = answer.json()
    error = body["error"]
    assert len(error["message"]) > 10, error
    assert " a line" not in error["message"], "only standard input has lines"
    if answer.request.method != "POST":
        return answer.status_code, error["kind"]
    assert (set(body), body["jsonrpc"]) == ({"jsonrpc", "id", "error"}, "2.0")
    assert (set(error), type(error["code"])) == ({"code", "message", "data"}, int)
    return answer.status_code, error["data"]["kind"]


POSTS: list[tuple[str, bytes, dict[str, str], int, str]] = [
    ("no type", OPEN, {}, 415, Kind.INVALID_REQUEST),
    ("another type", b"{}", {"content-type": "text/plain"}, 415, Kind.INVALID_REQUEST),
    ("no JSON", b"{", JSON, 400, Kind.PARSE_ERROR),
    ("an empty body", b"", JSON, 400, Kind.PARSE_ERROR),
    ("no object", b"5", JSON, 400, Kind.INVALID_REQUEST),
    ("a batch", json.dumps([NEW]).encode(), JSON, 501, Kind.CAPABILITY_UNSUPPORTED),
    ("too large", b'"' + b"x" * 200_000 + b'"', JSON, 413, Kind.TOO_LARGE),
    ("no connection", OPEN, JSON, 400, Kind.INVALID_REQUEST),
    ("initialize without an id", b'{"jsonrpc":"2.0","method":"initialize","params":{}}', JSON, 400,
     Kind.INVALID_REQUEST),
    ("another connection", OPEN, {**JSON, "acp-connection-id": "x"}, 404, Kind.RESOURCE_NOT_FOUND),
    ("a foreign page", HELLO, {**JSON, "origin": "https://evil.example"}, 403, Kind.ACCESS_DENIED),
    ("a page without a place", HELLO, {**JSON, "origin": "null"}, 403, Kind.ACCESS_DENIED),
    ("a name of somebody's own", HELLO, {**JSON, "host": "evil.example"}, 421, Kind.ACCESS_DENIED),
    ("through a proxy", HELLO, {**JSON, "x-forwarded-for": "192.0.2.1"}, 403, Kind.ACCESS_DENIED),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "headers", "status", "kind"), [row[1:] for row in POSTS], ids=[row[0] for row in POSTS]
)
def test_a_refused_post_has_a_reason(
    client: httpx.Client, body: bytes, headers: dict[str, str], status: int, kind: str
) -> None:
    assert fault(client.post("", content=body, headers=headers)) == (status, kind)


WITHIN: list[tuple[str, dict[str, Any], dict[str, str], int, str]] = [
    ("initialize again", INITIALIZE, {}, 400, Kind.INVALID_REQUEST),
    ("two sessions", prompt("a", "x"), {"acp-session-id": "b"}, 400, Kind.INVALID_REQUEST),
    ("a session nobody opened", prompt("a", "x"), {"acp-session-id": "a"}, 404, Kind.SESSION_NOT_FOUND),
    ("the same, named in the body alone", prompt("a", "x"), {}, 404, Kind.SESSION_NOT_FOUND),
    ("no session", {"jsonrpc": "2.0", "method": "session/cancel"}, {}, 400, Kind.INVALID_REQUEST),
    ("an answer for a foreign session", {"jsonrpc": "2.0", "id": 4, "result": {}}, {"acp-session-id": "z"}, 404,
     Kind.SESSION_NOT_FOUND),
    ("a number that is none", NEW, {"dragoman-frame": "x"}, 400, Kind.INVALID_REQUEST),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "headers", "status", "kind"), [row[1:] for row in WITHIN], ids=[row[0] for row in WITHIN]
)
def test_a_message_for_the_wrong_connection_is_refused_with_a_reason(
    client: httpx.Client,
    known: dict[str, str],
    message: dict[str, Any],
    headers: dict[str, str],
    status: int,
    kind: str,
) -> None:
    answer = client.post("", json=message, headers={**known, **headers})
    assert fault(answer) == (status, kind)
    if "method" in message and "id" in message:
        assert answer.json()["id"] == message["id"], "the body answers the message too"


GETS: list[tuple[str, str, dict[str, str], int]] = [
    ("not an event stream", "GET", {"accept": "application/json"}, 406),
    ("a page of a connection", "GET", {"accept": "text/html", "acp-connection-id": "x"}, 406),
    ("no connection", "GET", EVENTS, 400),
    ("another connection", "GET", {**EVENTS, "acp-connection-id": "x"}, 404),
    ("the end of none", "DELETE", {}, 400),
    ("the end of another", "DELETE", {"acp-connection-id": "x"}, 404),
    ("another method", "PUT", {}, 405),
]


@pytest.mark.parametrize(("method", "headers", "status"), [row[1:] for row in GETS], ids=[row[0] for row in GETS])
def test_other_http_methods_are_refused_with_a_reason(
    client: httpx.Client, method: str, headers: dict[str, str], status: int
) -> None:
    assert fault(client.request(method, "", headers=headers))[0] == status


def test_an_unknown_event_id_is_refused(client: httpx.Client, known: dict[str, str]) -> None:
    answer = client.get("", headers={**EVENTS, **known, "last-event-id": "yesterday"})
    assert answer.status_code == 400


def test_a_path_without_an_agent_is_not_found(server: Standing) -> None:
    root = server.url.removesuffix("/acp")
    for path, status in (("/acp/other", 404), ("/acp/a/b", 404), ("/acp/", 200), ("/", 200)):
        assert httpx.post(root + path, json=INITIALIZE).status_code == status, path


def test_a_second_reader_of_a_stream_is_refused_unless_it_resumes(client: httpx.Client, server: Standing) -> None:
    mine = server.initialized(client)
    with client.stream("GET", "", headers={**EVENTS, **mine}) as first:
        assert first.status_code == 200
        assert client.get("", headers={**EVENTS, **mine}).status_code == 409
        with client.stream("GET", "", headers={**EVENTS, **mine, "last-event-id": "0"}) as second:
            assert second.status_code == 200
            assert list(first.iter_lines()) == FIRST_LINES, "the first reader is let go"


def test_a_cursor_before_the_buffer_ends_the_connection(client: httpx.Client, server: Standing) -> None:
    mine = server.initialized(client)
    assert client.get("", headers={**EVENTS, **mine, "last-event-id": "7"}).status_code == 404
    assert client.post("", json=NEW, headers=mine).status_code == 404


def test_a_page_of_an_allowed_origin_is_accepted(client: httpx.Client) -> None:
    there = {"origin": "https://editor.example"}
    asked = client.request("OPTIONS", "", headers={**there, "access-control-request-method": "POST"})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, there["origin"])
    assert "acp-connection-id" in asked.headers["access-control-allow-headers"]
    answer = client.post("", json=INITIALIZE, headers=there)
    assert answer.status_code == 200
    assert "acp-connection-id" in answer.headers["access-control-expose-headers"]


def test_a_page_of_our_own_is_accepted(client: httpx.Client, server: Standing) -> None:
    assert client.post("", json=INITIALIZE, headers={"origin": f"http://127.0.0.1:{server.port}"}).status_code == 200
    assert client.post("", json=INITIALIZE, headers={"origin": "http://127.0.0.1:1"}).status_code == 403


def test_after_delete_the_connection_is_not_found(client: httpx.Client, server: Standing) -> None:
    mine = server.initialized(client)
    with client.stream("GET", "", headers={**EVENTS, **mine}) as stream:
        assert client.delete("", headers=mine).status_code == 202
        assert list(stream.iter_lines()) == FIRST_LINES
    assert client.post("", json=NEW, headers=mine).status_code == 404
    assert client.delete("", headers=mine).status_code == 404


def upgrade(server: Standing, **headers: str) -> bytes:
    """The first line and the body of the response to a WebSocket upgrade."""
    statuses = {
        "Host": f"127.0.0.1:{server.port}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(b"x" * 16).decode(),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    with server.dial() as end:
        lines = "".join(f"{name}: {value}\r\n" for name, value in statuses.items())
        end.sendall(f"GET /acp HTTP/1.1\r\n{lines}\r\n".encode())
        return end.recv(65536)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 101),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Acp_Connection_Id": "x", "Dragoman_Cursor": "0"}, 404),
    ],
)
def test_an_upgrade_is_checked_like_every_request(server: Standing, headers: dict[str, str], status: int) -> None:
    answer = upgrade(server, **headers)
    assert int(answer.split()[1]) == status
    if status == 101:
        assert b"acp-connection-id: " in answer.lower()
    else:
        assert b'{"error":{"kind":' in answer


async def by_token(request: AuthRequest) -> Principal:
    """Authenticate two tokens."""
    user = {"k1": "ann", "k2": "bob"}.get(bearer_token(request))
    if user is None:
        raise unauthorized_error("show your token")
    return Principal(user=user)


def test_tokens_are_accepted_in_three_places_and_never_echoed() -> None:
    with standing(authenticate=by_token) as server, server.connect() as client:
        answer = client.post("", json=INITIALIZE)
        assert fault(answer) == (401, Kind.AUTH_REQUIRED)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert client.post("", json=INITIALIZE, headers={"authorization": "Bearer k3"}).status_code == 401
        assert client.post("", json=INITIALIZE, headers={"authorization": "Bearer k1"}).status_code == 200
        assert client.post("", json=INITIALIZE, params={"token": "k1"}).status_code == 200
        upgraded = upgrade(server, Sec_WebSocket_Protocol="acp, dragoman.bearer.k1").lower()
        assert upgraded.split()[1] == b"101"
        assert b"sec-websocket-protocol: acp\r\n" in upgraded
        assert b"k1" not in upgraded
        assert upgrade(server).split()[1] == b"401"


def test_the_connection_of_another_user_is_not_found() -> None:
    with standing(authenticate=by_token) as server, server.connect() as client:
        ann, bob = ({"authorization": f"Bearer {key}"} for key in ("k1", "k2"))
        mine = {"acp-connection-id": client.post("", json=INITIALIZE, headers=ann).headers["acp-connection-id"]}
        assert client.post("", json=NEW, headers={**mine, **bob}).status_code == 404
        assert client.get("", headers={**EVENTS, **mine, **bob}).status_code == 404
        assert client.delete("", headers={**mine, **bob}).status_code == 404
        assert client.post("", json=NEW, headers={**mine, **ann}).status_code == 202


ADMIN, EDITOR, VIEWER = (Principal(user="bob", role=role, token_id=role) for role in ("admin", "editor", "viewer"))
LINK = Principal(user="bob", role="editor", session="s1", token_id="l1")


@pytest.mark.parametrize(
    ("opener", "principal", "status"),
    [
        (EDITOR, EDITOR, 202),
        (EDITOR, structs.replace(EDITOR, token_id="renewed", expires_at=9e9), 202),
        (EDITOR, ADMIN, 202),
        (EDITOR, VIEWER, 404),
        (structs.replace(EDITOR, token_id=""), structs.replace(VIEWER, token_id=""), 404),
        (EDITOR, structs.replace(EDITOR, role="unknown"), 404),
        (structs.replace(ADMIN, is_local=True), ADMIN, 404),
        (LINK, LINK, 202),
        (LINK, structs.replace(LINK, role="viewer", token_id="l2"), 404),
        (LINK, structs.replace(LINK, token_id="l2"), 404),
        (LINK, EDITOR, 404),
    ],
)
def test_a_connection_is_not_found_with_a_token_of_fewer_rights_or_another_link(
    opener: Principal, principal: Principal, status: int
) -> None:
    async def authenticate(request: AuthRequest) -> Principal:
        return opener if bearer_token(request) == "opener" else principal

    with standing(authenticate=authenticate) as server, server.connect() as client:
        first, second = ({"authorization": f"Bearer {key}"} for key in ("opener", "other"))
        mine = {"acp-connection-id": client.post("", json=INITIALIZE, headers=first).headers["acp-connection-id"]}
        assert client.post("", json=NEW, headers={**mine, **second}).status_code == status


def test_too_many_requests_and_connections_get_a_retry_after() -> None:
    with standing(limits=ServerLimits(connections=2, rate=0.5, burst=4)) as server, server.connect() as client:
        assert [client.post("", json=INITIALIZE).status_code for _ in range(3)] == [200, 200, 429]
        crowded, hasty = client.post("", json=INITIALIZE), client.post("", json=INITIALIZE)
        assert fault(crowded) == fault(hasty) == (429, Kind.RATE_LIMITED)
        assert int(hasty.headers["retry-after"]) >= 1
        assert "requests" in hasty.json()["error"]["message"]
