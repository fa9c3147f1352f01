"""Serve a remote host as an agent on stdio: forward frames between an editor and a ReconnectingTransport.

An AttachSession sends the editor into one session of the host. A message that is too large is answered here.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.dialect.peek import decode_frame, rename_session, session_of
from dragoman.dialect.side_data import side_data_of
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.roles.client.reconnect.frames import DialectFrames
from dragoman.schema.methods import methods_that
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Id, parse_excerpt
from dragoman.wire.frames import Frame, Oversize

_REOPENS_SESSION = methods_that("reopens", "attaches")

_ENDS_SESSION = methods_that("ends", "detaches")

_encode = msgspec.json.encode


class RoutedFrames(msgspec.Struct, frozen=True):
    """The frames that follow from a frame of the host."""

    to_editor: list[Frame]
    to_host: list[bytes] = []


class EditorRequest(msgspec.Struct, frozen=True):
    """A request of the editor, in the vocabulary."""

    method: str
    params: dict[str, Any]


class AttachSession:
    """The session that an editor is attached to."""

    def __init__(self, session_id: str, list_entry: dict[str, Any], created_at: str = "") -> None:
        self._session_id = session_id
        self._list_entry = list_entry  # its entry in session/list
        self._created_at = created_at
        self._frames = DialectFrames()
        self._is_attached = False
        self._open_requests: dict[Id, EditorRequest] = {}
        self._attach_request_id: Id = None  # the session/new that was sent as a load, until it is answered
        self._held_frames: list[Frame] = []  # frames of the session that arrive before that answer
        self._editor_session_id = session_id  # the editor's id of the session

    # --- frames of the editor ---------------------------------------------------------------------------------

    def route_editor_frame(self, frame: Frame) -> Frame:
        """Return a frame of the editor as the host gets it."""
        message = decode_frame(frame) if isinstance(frame, bytes) else None
        if message is None or message.get("method") is None:
            return frame
        method, params, id = str(message["method"]), message.get("params"), message.get("id")
        if method == "initialize":
            self._frames.detect_client(params)
        request = EditorRequest(*self._frames.lift_call(method, params))
        if (
            id is not None
            and request.method == "session/new"
            and not self._is_attached
            and self._attach_request_id is None
        ):
            own_id = side_data_of(request.params).get("sessionId")
            self._editor_session_id = own_id if isinstance(own_id, str) and own_id else self._session_id
            self._attach_request_id, self._open_requests[id] = id, request
            return self._load_frame("session/load", request.params, id)
        if id is not None and request.method in _REOPENS_SESSION | _ENDS_SESSION | {"session/list"}:
            self._open_requests[id] = request
        return self._rename_for_host(frame) if isinstance(frame, bytes) else frame

    def _load_frame(self, method: str, params: dict[str, Any], id: Id) -> bytes:
        given = {name: value for name, value in params.items() if name in ("cwd", "mcpServers")}
        return self._frames.encode_request(
            method, {"cwd": "/", "mcpServers": [], **given, "sessionId": self._session_id}, id
        )

    def _rename_for_host(self, frame: bytes) -> bytes:
        if self._editor_session_id == self._session_id:
            return frame
        return rename_session(frame, {self._editor_session_id: self._session_id})

    def _rename_for_editor(self, frame: bytes) -> bytes:
        if self._editor_session_id == self._session_id:
            return frame
        return rename_session(frame, {self._session_id: self._editor_session_id})

    # --- frames of the host -----------------------------------------------------------------------------------

    def route_host_frame(self, frame: Frame) -> RoutedFrames:
        """Return what follows from a frame of the host."""
        if not isinstance(frame, bytes) or not (self._open_requests or self._editor_session_id != self._session_id):
            return RoutedFrames([frame])
        message = decode_frame(frame)
        if message is None:
            return RoutedFrames([frame])
        if message.get("method") is not None:
            if self._attach_request_id is not None and session_of(message.get("params")) == self._session_id:
                # An editor does not know the session before the answer that opens it.
                self._held_frames.append(self._rename_for_editor(frame))
                return RoutedFrames([])
            return RoutedFrames([self._rename_for_editor(frame)])
        request = self._open_requests.pop(message.get("id"), None)
        if request is None:
            return RoutedFrames([frame])
        if message.get("id") == self._attach_request_id:
            return self._on_attached(frame, message)
        if "error" in message:
            return self._on_error(frame, message, request)
        return self._on_result(frame, message, request)

    def _on_attached(self, frame: bytes, message: dict[str, Any]) -> RoutedFrames:
        """Return the answer to the editor's session/new, and the frames held until then."""
        held, self._held_frames, self._attach_request_id = self._held_frames, [], None
        loaded = message.get("result")
        if not isinstance(loaded, dict):
            return RoutedFrames([frame, *held])
        self._is_attached = True
        if self._frames.is_native:
            return RoutedFrames(
                [_encode({**message, "result": {"sessionId": self._editor_session_id, **loaded}}), *held]
            )
        lifted = self._frames.lift_result("session/load", loaded)
        result = {name: value for name, value in lifted.items() if name != "_meta"}
        result = {
            **result,
            "sessionId": self._editor_session_id,
            "_meta": {"dragoman": {"createdAt": self._created_at}},
        }
        answer = decode_frame(self._frames.encode_result(message["id"], "session/new", result)) or {}
        if "_meta" in loaded:  # for what this dialect cannot carry
            answer["result"]["_meta"] = loaded["_meta"]
        return RoutedFrames([_encode(answer), *held])

    def _on_error(self, frame: bytes, message: dict[str, Any], request: EditorRequest) -> RoutedFrames:
        """Open this session instead of one that the host does not know, under the editor's id."""
        session_id = request.params.get("sessionId")
        is_unknown = (
            request.method in _REOPENS_SESSION and session_id != self._session_id and isinstance(session_id, str)
        )
        if (
            not is_unknown
            or self._is_attached
            or self._frames.lift_error(message["error"]).kind != Kind.SESSION_NOT_FOUND
        ):
            return RoutedFrames([frame])
        self._editor_session_id = str(session_id)
        params = {**request.params, "sessionId": self._session_id}
        self._open_requests[message["id"]] = EditorRequest(request.method, params)
        if request.method == "session/attach":
            return RoutedFrames([], [self._frames.encode_request(request.method, params, message["id"])])
        return RoutedFrames([], [self._load_frame(request.method, params, message["id"])])

    def _on_result(self, frame: bytes, message: dict[str, Any], request: EditorRequest) -> RoutedFrames:
        session_id = request.params.get("sessionId")
        if request.method == "session/list":
            return RoutedFrames([self._list_with_session(frame, message, request)])
        if session_id in (self._session_id, self._editor_session_id):
            self._is_attached = request.method in _REOPENS_SESSION
            if not self._is_attached:
                self._editor_session_id = self._session_id
        return RoutedFrames([frame])

    def _list_with_session(self, frame: bytes, message: dict[str, Any], request: EditorRequest) -> bytes:
        """Return the list with this session first, once, on the first page, for any folder."""
        result = message.get("result")
        sessions = result.get("sessions") if isinstance(result, dict) else None
        if not isinstance(result, dict) or not isinstance(sessions, list):
            return frame
        ours = [each for each in sessions if isinstance(each, dict) and each.get("sessionId") == self._session_id]
        rest = [each for each in sessions if each not in ours]
        first = (ours or [self._list_entry])[:1] if not request.params.get("cursor") else []
        return _encode({**message, "result": {**result, "sessions": [*first, *rest]}})


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
