"""What is tried at a host's door, one row each: a sentence, how, and what documentation says comes of it.

Statuses are those of reference 3.2 and docs/host.md. A row that gives something else is a fault of the host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.host.hostile.attacker import Door, closing, read

Attack = Callable[[Door], Awaitable[str]]

EVIL = {"Origin": "https://evil.example"}
OTHER_NAME = {"Host": "evil.example"}
EVENTS = {"Accept": "text/event-stream"}

# More than the limits of the run allow.
LARGE = 2_000_000


async def _oversize_frame(door: Door) -> str:
    async with door.socket(door.good) as socket:
        await socket.send("x" * LARGE)
        return await closing(socket)


async def _endless_body(door: Door) -> str:
    head = (
        b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + door.good.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    said = read(await door.raw(head, *([b"10000\r\n" + b" " * 0x10000 + b"\r\n"] * (LARGE // 0x10000 + 1))))
    return said or "413 too_large"  # it hung up while we were sending, and the answer was lost with the rest


async def _slow_headers(door: Door) -> str:
    drops = [b"X-%d: y\r\n" % number for number in range(40)]
    return read(await door.raw(b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\n", *drops, pause=0.1))


async def _slow_body(door: Door) -> str:
    head = (
        b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + door.good.encode() + b"\r\nContent-Length: 1000\r\n\r\n"
    )
    return read(await door.raw(head, *[b" "] * 40, pause=0.1))


async def _silent(door: Door) -> str:
    return (await door.raw()).decode()


async def _header_flood(door: Door) -> str:
    said = await door.raw(
        b"GET /acp HTTP/1.1\r\nHost: x\r\n", *(b"X-%d: %b\r\n" % (n, b"y" * 200) for n in range(5000))
    )
    return read(said)


async def _broken_frame(door: Door) -> str:
    async with door.socket(door.good) as socket:
        socket.transport.write(b"\xff\xff\xff\xff\xff\xff\xff\xff")
        return await closing(socket)


ATTACKS: dict[str, tuple[Attack, str]] = {
    # --- web pages, and names that lead here by a trick
    "a page of somebody else posts": (
        lambda door: door.ask(headers=EVIL, token=door.good),
        "403 access_denied",
    ),
    "a page of somebody else opens a socket": (
        lambda door: door.upgrade(door.good, Origin="https://evil.example"),
        "403 access_denied",
    ),
    "a page without a place": (lambda door: door.ask(headers={"Origin": "null"}, token=door.good), "403 access_denied"),
    "another name that leads here": (lambda door: door.ask(headers=OTHER_NAME, token=door.good), "421 access_denied"),
    "the status page by another name": (
        lambda door: door.ask("GET", "/", headers=OTHER_NAME, token=door.good),
        "421 access_denied",
    ),
    # --- no leave
    "no token": (lambda door: door.ask(), "401 auth_required"),
    "no token, a socket": (lambda door: door.upgrade(), "401 auth_required"),
    "no token, the status page": (lambda door: door.ask("GET", "/"), "401 auth_required"),
    "no token, the metrics": (lambda door: door.ask("GET", "/metrics"), "401 auth_required"),
    "no token, the API": (lambda door: door.ask("GET", "/api/sessions"), "401 auth_required"),
    "a token that somebody made up": (lambda door: door.ask(token="drg_aaaaaaaaaa_" + "x" * 43), "401 auth_required"),
    "a token of another kind": (lambda door: door.ask(token="x" * 10_000), "401 auth_required"),
    "a token that expired": (lambda door: door.ask(token=door.expired), "401 auth_required"),
    "a token that expired, a socket": (lambda door: door.upgrade(door.expired), "401 auth_required"),
    "a token that expired, in the address": (
        lambda door: door.ask(path=f"/acp?token={door.expired}"),
        "401 auth_required",
    ),
    "a token that was revoked": (lambda door: door.ask(token=door.revoked), "401 auth_required"),
    "a token that was revoked, a socket": (lambda door: door.upgrade(door.revoked), "401 auth_required"),
    # --- what belongs to somebody else
    "the session of another is loaded": (
        lambda door: door.call(
            "session/load", {"sessionId": door.session, "cwd": door.folder, "mcpServers": []}, token=door.good
        ),
        "session_not_found",
    ),
    "the session of another is attached to": (
        lambda door: door.call("session/attach", {"sessionId": door.session}, token=door.good),
        "session_not_found",
    ),
    "the session of another is prompted": (
        lambda door: door.call("session/prompt", {"sessionId": door.session, "prompt": []}, token=door.good),
        "session_not_found",
    ),
    "the session of another is deleted": (
        lambda door: door.call("session/delete", {"sessionId": door.session}, token=door.good),
        "answered",  # as for one that is not there: it is not deleted, its owner goes on working in it
    ),
    "a session beside the shared one": (
        lambda door: door.call("session/attach", {"sessionId": door.session}, token=door.shared),
        "session_not_found",
    ),
    "the connection of another is posted to": (
        lambda door: door.ask(
            headers={"Acp-Connection-Id": door.connection}, body={"jsonrpc": "2.0", "method": "x"}, token=door.good
        ),
        "404 resource_not_found",
    ),
    "the connection of another is listened to": (
        lambda door: door.ask("GET", headers={**EVENTS, "Acp-Connection-Id": door.connection}, token=door.good),
        "404 resource_not_found",
    ),
    "the connection of another is ended": (
        lambda door: door.ask("DELETE", headers={"Acp-Connection-Id": door.connection}, token=door.good),
        "404 resource_not_found",
    ),
    "the connection of another is gone on with": (
        lambda door: door.upgrade(door.good, f"?connection={door.connection}&cursor=0"),
        "404 resource_not_found",
    ),
    "a session outside of the roots": (
        lambda door: door.call("session/new", {"cwd": "/etc", "mcpServers": []}, token=door.good),
        "permission_denied",
    ),
    "a session beside the roots by dots": (
        lambda door: door.call("session/new", {"cwd": f"{door.folder}/../..", "mcpServers": []}, token=door.good),
        "permission_denied",
    ),
    "a command in an MCP server": (
        lambda door: door.call(
            "session/new",
            {"cwd": door.folder, "mcpServers": [{"name": "x", "command": "/bin/sh", "args": [], "env": []}]},
            token=door.good,
        ),
        "permission_denied",
    ),
    "an agent that is not there": (
        lambda door: door.ask(path="/acp/nobody", token=door.good),
        "404 resource_not_found",
    ),
    "a path that climbs": (
        lambda door: door.ask(path="/acp/../../etc/passwd", token=door.good),
        "404 resource_not_found",
    ),
    # --- too much, too slowly
    "a body that is too large": (lambda door: door.ask(body=b"x" * LARGE, token=door.good), "413 too_large"),
    "a body that never ends": (_endless_body, "413 too_large"),
    "a message that is too large": (_oversize_frame, "1009"),
    "headers that drip": (_slow_headers, "408 timeout"),
    "a body that drips": (_slow_body, "408 timeout"),
    "a socket that says nothing": (_silent, ""),
    "a flood of headers": (_header_flood, "431 too_large"),
    # --- garbage
    "no JSON": (lambda door: door.ask(body=b"{", token=door.good), "400 parse_error"),
    "a batch": (lambda door: door.ask(body=[{}], token=door.good), "501 capability_unsupported"),
    "no JSON type": (
        lambda door: door.ask(headers={"Content-Type": "text/plain"}, token=door.good),
        "415 invalid_request",
    ),
    "a broken frame": (_broken_frame, "1002"),
}
