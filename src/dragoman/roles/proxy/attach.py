"""A remote host as an agent on stdio: frames pass as they are, and a connection that is gone is begun anew.

Takes the editor's transport and a Rejoining one, moves frames between them until one side leaves. A Landing may change
some of them on the way; a message that is too large to pass is answered here. Above is `dragoman attach`.
"""

from __future__ import annotations

import asyncio

from msgspec import UNSET, UnsetType

from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.roles.client.reconnect.frames import DialectFrames
from dragoman.roles.proxy.attach_session import AttachSession, RoutedFrames
from dragoman.transport.base import Transport
from dragoman.wire.envelope import parse_excerpt
from dragoman.wire.frames import Frame, Oversize


async def attach(editor: Transport, host: Transport, session: AttachSession | None = None) -> ConnectionFailed:
    """Move frames between the two until one side is gone; gives why, as that side tells it. Closes both."""
    out = asyncio.ensure_future(_forward_to_host(editor, host, session))
    back = asyncio.ensure_future(_forward_to_editor(host, editor, session))
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


async def _forward_to_host(editor: Transport, host: Transport, session: AttachSession | None) -> ConnectionFailed:
    while True:
        try:
            frames = await editor.receive()
        except ConnectionFailed as error:
            return error
        for frame in frames:
            _send_or_refuse(frame if session is None else session.route_editor_frame(frame), host, editor)
        if host.congested():
            await host.drain()


async def _forward_to_editor(host: Transport, editor: Transport, session: AttachSession | None) -> ConnectionFailed:
    while True:
        try:
            frames = await host.receive()
        except ConnectionFailed as error:
            return error
        for frame in frames:
            heard = RoutedFrames([frame]) if session is None else session.route_host_frame(frame)
            for each in heard.to_editor:
                _send_or_refuse(each, editor, host)
            for again in heard.to_host:
                host.send(again)
        if editor.congested():
            await editor.drain()


def _send_or_refuse(frame: Frame, target: Transport, source: Transport) -> None:
    """Pass a frame; where it is too large, whoever waits for an answer gets one."""
    if not isinstance(frame, Oversize):
        target.send(frame)
        return
    known = parse_excerpt(frame)
    if isinstance(known.id, UnsetType):
        return  # a notification: nobody waits
    error = ProtocolError(Kind.TOO_LARGE, f"a message of {frame.size} bytes is over the limit", {"size": frame.size})
    waits = target if known.method is UNSET else source
    waits.send(DialectFrames().encode_error(known.id, error))
