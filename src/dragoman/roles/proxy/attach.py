"""Serve a remote host as an agent on stdio: forward frames between an editor and a ReconnectingTransport.

An AttachSession may change some frames. A message that is too large is answered here.
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
    """Forward frames until one side disconnects; return its reason. Closes both."""
    to_host = asyncio.ensure_future(_forward_to_host(editor, host, session))
    to_editor = asyncio.ensure_future(_forward_to_editor(host, editor, session))
    try:
        await asyncio.wait({to_host, to_editor}, return_when=asyncio.FIRST_COMPLETED)
        first = to_host if to_host.done() else to_editor
        return first.result()
    except ConnectionFailed as error:  # of the receiving side
        return error
    finally:
        for task in (to_host, to_editor):
            task.cancel()
        await asyncio.gather(to_host, to_editor, return_exceptions=True)
        await host.close("the editor disconnected")
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
            routed = RoutedFrames([frame]) if session is None else session.route_host_frame(frame)
            for each in routed.to_editor:
                _send_or_refuse(each, editor, host)
            for each in routed.to_host:
                host.send(each)
        if editor.congested():
            await editor.drain()


def _send_or_refuse(frame: Frame, target: Transport, source: Transport) -> None:
    """Send a frame; if it is too large, answer its request with an error."""
    if not isinstance(frame, Oversize):
        target.send(frame)
        return
    header = parse_excerpt(frame)
    if isinstance(header.id, UnsetType):
        return  # a notification has no answer
    error = ProtocolError(Kind.TOO_LARGE, f"a message of {frame.size} bytes is over the limit", {"size": frame.size})
    requester = target if header.method is UNSET else source
    requester.send(DialectFrames().encode_error(header.id, error))
