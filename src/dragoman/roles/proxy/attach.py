"""A remote host as an agent on stdio: frames pass as they are, and a connection that is gone is begun anew.

Takes the editor's transport and a Rejoining one, moves frames between them until one side leaves. A Landing may change
some of them on the way; a message that is too large to pass is answered here. Above is `dragoman attach`.
"""

from __future__ import annotations

import asyncio

from msgspec import UNSET, UnsetType

from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.roles.client.reconnect.frames import Overheard
from dragoman.roles.proxy.attach_session import Heard, Landing
from dragoman.transport.base import Transport
from dragoman.wire.envelope import outline
from dragoman.wire.frames import Frame, Oversize


async def attached(editor: Transport, host: Transport, landing: Landing | None = None) -> ConnectionFailed:
    """Move frames between the two until one side is gone; gives why, as that side tells it. Closes both."""
    out = asyncio.ensure_future(_out(editor, host, landing))
    back = asyncio.ensure_future(_back(host, editor, landing))
    try:
        await asyncio.wait({out, back}, return_when=asyncio.FIRST_COMPLETED)
        first = out if out.done() else back
        return first.result()
    except ConnectionFailed as error:  # of the side that was spoken to
        return error
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
            _say(frame if landing is None else landing.went(frame), host, editor)
        if host.congested():
            await host.drain()


async def _back(host: Transport, editor: Transport, landing: Landing | None) -> ConnectionFailed:
    while True:
        try:
            frames = await host.receive()
        except ConnectionFailed as error:
            return error
        for frame in frames:
            heard = Heard([frame]) if landing is None else landing.came(frame)
            for each in heard.editor:
                _say(each, editor, host)
            for again in heard.host:
                host.send(again)
        if editor.congested():
            await editor.drain()


def _say(frame: Frame, target: Transport, source: Transport) -> None:
    """Pass a frame; where it is too large, whoever waits for an answer gets one."""
    if not isinstance(frame, Oversize):
        target.send(frame)
        return
    known = outline(frame)
    if isinstance(known.id, UnsetType):
        return  # a notification: nobody waits
    error = ProtocolError(Kind.TOO_LARGE, f"a message of {frame.size} bytes is over the limit", {"size": frame.size})
    waits = target if known.method is UNSET else source
    waits.send(Overheard().say_error(known.id, error))
