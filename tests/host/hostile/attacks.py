"""Attacks on a host, one row each: a sentence, the attack, and the documented outcome.

Statuses are those of docs/protocol/http.md#status-codes and docs/host.md. Any other outcome is a fault of the host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from websockets.exceptions import ConnectionClosed

from tests.host.hostile.attacker import Target, closing, read

Attack = Callable[[Target], Awaitable[str]]

EVIL = {"Origin": "https://evil.example"}
OTHER_NAME = {"Host": "evil.example"}
EVENTS = {"Accept": "text/event-stream"}

# More than the limits of the run allow.
LARGE = 2_000_000


async def _oversize_frame(target: Target) -> str:
    async with target.socket(target.good) as socket:
        with suppress(ConnectionClosed):  # the host may close before everything is sent
            await socket.send("x" * LARGE)
        return await closing(socket)


async def _endless_body(target: Target) -> str:
    head = (
        b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + target.good.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    answer = read(await target.raw(head, *([b"10000\r\n" + b" " * 0x10000 + b"\r\n"] * (LARGE // 0x10000 + 1))))
    return answer or "413 too_large"  # it closed while we were sending, and the answer was lost


async def _slow_headers(target: Target) -> str:
    drops = [b"X-%d: y\r\n" % number for number in range(40)]
    return read(await target.raw(b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n", *drops, pause=0.1))


async def _slow_body(target: Target) -> str:
    head = (
        b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + target.good.encode() + b"\r\nContent-Length: 1000\r\n\r\n"
    )
    return read(await target.raw(head, *[b" "] * 40, pause=0.1))


async def _silent(target: Target) -> str:
    return (await target.raw()).decode()


async def _header_flood(target: Target) -> str:
    answer = await target.raw(
        b"GET /acp HTTP/1.1\r\nHost: x\r\n", *(b"X-%d: %b\r\n" % (n, b"y" * 200) for n in range(5000))
    )
    return read(answer)


async def _broken_frame(target: Target) -> str:
    async with target.socket(target.good) as socket:
        socket.transport.write(b"\xff\xff\xff\xff\xff\xff\xff\xff")
        return await closing(socket)


ATTACKS: dict[str, tuple[Attack, str]] = {
    # --- web pages, and names that lead here by a trick
    "a page of somebody else posts": (
        lambda target: target.ask(headers=EVIL, token=target.good),
        "403 access_denied",
    ),
    "a page of somebody else opens a socket": (
        lambda target: target.upgrade(target.good, Origin="https://evil.example"),
        "403 access_denied",
    ),
    "a page without a place": (
        lambda target: target.ask(headers={"Origin": "null"}, token=target.good),
        "403 access_denied",
    ),
    "another name that leads here": (
        lambda target: target.ask(headers=OTHER_NAME, token=target.good),
        "421 access_denied",
    ),
    "the status page by another name": (
        lambda target: target.ask("GET", "/", headers=OTHER_NAME, token=target.good),
        "421 access_denied",
    ),
    # --- no leave
    "no token": (lambda target: target.ask(), "401 auth_required"),
    "no token, a socket": (lambda target: target.upgrade(), "401 auth_required"),
    "no token, the status page": (lambda target: target.ask("GET", "/status"), "401 auth_required"),
    "no token, the metrics": (lambda target: target.ask("GET", "/metrics"), "401 auth_required"),
    "no token, the API": (lambda target: target.ask("GET", "/api/sessions"), "401 auth_required"),
    "a token that somebody made up": (
        lambda target: target.ask(token="drg_aaaaaaaaaa_" + "x" * 43),
        "401 auth_required",
    ),
    "a token of another kind": (lambda target: target.ask(token="x" * 10_000), "401 auth_required"),
    "a token that expired": (lambda target: target.ask(token=target.expired), "401 auth_required"),
    "a token that expired, a socket": (lambda target: target.upgrade(target.expired), "401 auth_required"),
    "a token that expired, in the address": (
        lambda target: target.ask(path=f"/acp?token={target.expired}"),
        "401 auth_required",
    ),
    "a token that was revoked": (lambda target: target.ask(token=target.revoked), "401 auth_required"),
    "a token that was revoked, a socket": (lambda target: target.upgrade(target.revoked), "401 auth_required"),
    # --- what belongs to somebody else
    "the session of another is loaded": (
        lambda target: target.call(
            "session/load", {"sessionId": target.session, "cwd": target.folder, "mcpServers": []}, token=target.good
        ),
        "session_not_found",
    ),
    "the session of another is attached to": (
        lambda target: target.call("session/attach", {"sessionId": target.session}, token=target.good),
        "session_not_found",
    ),
    "the session of another is prompted": (
        lambda target: target.call("session/prompt", {"sessionId": target.session, "prompt": []}, token=target.good),
        "session_not_found",
    ),
    "the session of another is deleted": (
        lambda target: target.call("session/delete", {"sessionId": target.session}, token=target.good),
        "answered",  # as for a session that does not exist: it is not deleted, its owner continues to work in it
    ),
    "a session beside the shared one": (
        lambda target: target.call("session/attach", {"sessionId": target.session}, token=target.shared),
        "session_not_found",
    ),
    "the connection of another is posted to": (
        lambda target: target.ask(
            headers={"Acp-Connection-Id": target.connection}, body={"jsonrpc": "2.0", "method": "x"}, token=target.good
        ),
        "404 resource_not_found",
    ),
    "the connection of another is listened to": (
        lambda target: target.ask("GET", headers={**EVENTS, "Acp-Connection-Id": target.connection}, token=target.good),
        "404 resource_not_found",
    ),
    "the connection of another is ended": (
        lambda target: target.ask("DELETE", headers={"Acp-Connection-Id": target.connection}, token=target.good),
        "404 resource_not_found",
    ),
    "the connection of another is gone on with": (
        lambda target: target.upgrade(target.good, f"?connection={target.connection}&cursor=0"),
        "404 resource_not_found",
    ),
    "a session outside of the roots": (
        lambda target: target.call("session/new", {"cwd": "/etc", "mcpServers": []}, token=target.good),
        "permission_denied",
    ),
    "a session beside the roots by dots": (
        lambda target: target.call(
            "session/new", {"cwd": f"{target.folder}/../..", "mcpServers": []}, token=target.good
        ),
        "permission_denied",
    ),
    "a command in an MCP server": (
        lambda target: target.call(
            "session/new",
            {"cwd": target.folder, "mcpServers": [{"name": "x", "command": "/bin/sh", "args": [], "env": []}]},
            token=target.good,
        ),
        "permission_denied",
    ),
    "an agent that is not there": (
        lambda target: target.ask(path="/acp/nobody", token=target.good),
        "404 resource_not_found",
    ),
    "a path that climbs": (
        lambda target: target.ask(path="/acp/../../etc/passwd", token=target.good),
        "404 resource_not_found",
    ),
    # --- too much, too slowly
    "a body that is too large": (lambda target: target.ask(body=b"x" * LARGE, token=target.good), "413 too_large"),
    "a body that never ends": (_endless_body, "413 too_large"),
    "a message that is too large": (_oversize_frame, "1009"),
    "headers that drip": (_slow_headers, "408 timeout"),
    "a body that drips": (_slow_body, "408 timeout"),
    "a socket that says nothing": (_silent, ""),
    "a flood of headers": (_header_flood, "431 too_large"),
    # --- garbage
    "no JSON": (lambda target: target.ask(body=b"{", token=target.good), "400 parse_error"),
    "a batch": (lambda target: target.ask(body=[{}], token=target.good), "501 capability_unsupported"),
    "no JSON type": (
        lambda target: target.ask(headers={"Content-Type": "text/plain"}, token=target.good),
        "415 invalid_request",
    ),
    "a broken frame": (_broken_frame, "1002"),
}
