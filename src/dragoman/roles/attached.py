"""A remote host as an agent on stdio: frames pass as they are, and a connection that is gone is begun anew.

Takes the editor's transport and a Rejoining one, moves frames between them until one side leaves. `Landing` makes the
editor's first new session one that is there already. Above is `dragoman attach`; knows the spelling of official v1 only
where it lands, and nothing of what else passes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from dragoman.errors import ConnectionFailed
from dragoman.transport.contract import Transport
from dragoman.wire.frames import Frame

# How an update begins on the wire of a host; what is not of this form is not held back.
_UPDATE = b'"session/update"'


class Landing:
    """Turns the first session/new into joining a session: the editor hears its answer first, then what was said."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._request: Any = None
        self._is_waiting = False
        self.is_over = False
        self._held: list[Frame] = []

    def went(self, frame: Frame) -> Frame:
        """The editor says this; gives what the host is told."""
        if self.is_over or self._is_waiting or not isinstance(frame, bytes) or b'"session/new"' not in frame:
            return frame
        said = _object(frame)
        if said.get("method") != "session/new" or "id" not in said:
            return frame
        given = said.get("params")
        given = given if isinstance(given, dict) else {}
        params = {"sessionId": self._session, "cwd": given.get("cwd", "/"), "mcpServers": []}
        self._request, self._is_waiting = said["id"], True
        return msgspec.json.encode({"jsonrpc": "2.0", "id": said["id"], "method": "session/load", "params": params})

    def came(self, frame: Frame) -> list[Frame]:
        """The host says this; gives what the editor hears, in order."""
        if not self._is_waiting or not isinstance(frame, bytes):
            return [frame]
        if _UPDATE in frame:
            # An editor does not know a session before the answer that opens it.
            self._held.append(frame)
            return []
        said = _object(frame)
        if said.get("id") != self._request or "method" in said:
            return [frame]
        held, self._held = self._held, []
        self._is_waiting, self.is_over = False, True
        result = said.get("result")
        if not isinstance(result, dict):
            return [frame, *held]
        return [msgspec.json.encode({**said, "result": {"sessionId": self._session, **result}}), *held]


async def attached(editor: Transport, host: Transport, landing: Landing | None = None) -> ConnectionFailed:
    """Move frames between the two until one side is gone; gives why, as that side tells it. Closes both."""
    out = asyncio.ensure_future(_out(editor, host, landing))
    back = asyncio.ensure_future(_back(host, editor, landing))
    try:
        await asyncio.wait({out, back}, return_when=asyncio.FIRST_COMPLETED)
        first = out if out.done() else back
        return first.result()
    finally:
        for task in (out, back):
            task.cancel()
        await asyncio.gather(out, back, return_exceptions=True)
        await host.close("the editor has left")
        await editor.close()


async def _out(editor: Transport, host: Transport, landing: Landing | None) -> ConnectionFailed:
    while True:
        try:
            frames = await editor.receive()
        except ConnectionFailed as error:
            return error
        for frame in frames:
            said = frame if landing is None else landing.went(frame)
            if isinstance(said, bytes):
                host.send(said)
        if host.congested():
            await host.drain()


async def _back(host: Transport, editor: Transport, landing: Landing | None) -> ConnectionFailed:
    while True:
        try:
            frames = await host.receive()
        except ConnectionFailed as error:
            return error
        for frame in frames:
            for heard in [frame] if landing is None else landing.came(frame):
                if isinstance(heard, bytes):
                    editor.send(heard)
        if editor.congested():
            await editor.drain()


def _object(frame: bytes) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return said if isinstance(said, dict) else {}
