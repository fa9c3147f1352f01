"""Where an editor lands that was sent into a session: what it opens is that one, whatever it knows of sessions. Pure.

Reads the frames between an editor and a host, changes those that open or list sessions, and passes all others. A
session that the editor calls by another name (its own choice in 2025.1, or one that the host does not know) is renamed
both ways. Above is attached.py; how the editor spells is for overheard.py.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialect.side_data import side_data_of
from dragoman.errors import Kind
from dragoman.roles.client.reconnect.frames import DialectFrames, decode_frame, rename_session, session_of
from dragoman.wire.envelope import Id
from dragoman.wire.frames import Frame

_REOPENS_SESSION = frozenset({"session/load", "session/resume", "session/attach"})
_ENDS_SESSION = frozenset({"session/close", "session/delete", "session/detach"})

_encode = msgspec.json.encode


class RoutedFrames(msgspec.Struct, frozen=True):
    """What follows from a frame of the host's: what the editor hears, and what the host is told."""

    to_editor: list[Frame]
    to_host: list[bytes] = []


class EditorRequest(msgspec.Struct, frozen=True):
    """A request of the editor's, in the vocabulary."""

    method: str
    params: dict[str, Any]


class AttachSession:
    """The session that an editor is sent into, and what it must not notice of that."""

    def __init__(self, session_id: str, list_entry: dict[str, Any], created_at: str = "") -> None:
        self._session_id = session_id
        self._list_entry = list_entry  # how session/list shows it
        self._created_at = created_at
        self._frames = DialectFrames()
        self._is_attached = False
        self._open_requests: dict[Id, EditorRequest] = {}
        self._attach_request_id: Id = None  # the session/new that became a load, while it is not answered
        self._held_frames: list[Frame] = []  # what the host says of the session meanwhile
        self._editor_session_id = session_id  # what the editor calls it

    # --- what the editor says ---------------------------------------------------------------------------------

    def route_editor_frame(self, frame: Frame) -> Frame:
        """The editor says this; gives what the host is told."""
        said = decode_frame(frame) if isinstance(frame, bytes) else None
        if said is None or said.get("method") is None:
            return frame
        method, params, id = str(said["method"]), said.get("params"), said.get("id")
        if method == "initialize":
            self._frames.detect_client(params)
        asked = EditorRequest(*self._frames.lift_call(method, params))
        if (
            id is not None
            and asked.method == "session/new"
            and not self._is_attached
            and self._attach_request_id is None
        ):
            chosen = side_data_of(asked.params).get("sessionId")
            self._editor_session_id = chosen if isinstance(chosen, str) and chosen else self._session_id
            self._attach_request_id, self._open_requests[id] = id, asked
            return self._load_frame("session/load", asked.params, id)
        if id is not None and asked.method in _REOPENS_SESSION | _ENDS_SESSION | {"session/list"}:
            self._open_requests[id] = asked
        return self._rename_for_host(frame) if isinstance(frame, bytes) else frame

    def _load_frame(self, method: str, params: dict[str, Any], id: Id) -> bytes:
        given = {name: value for name, value in params.items() if name in ("cwd", "mcpServers")}
        return self._frames.encode_request(
            method, {"cwd": "/", "mcpServers": [], **given, "sessionId": self._session_id}, id
        )

    def _rename_for_host(self, frame: bytes) -> bytes:
        return (
            frame
            if self._editor_session_id == self._session_id
            else rename_session(frame, {self._editor_session_id: self._session_id})
        )

    def _rename_for_editor(self, frame: bytes) -> bytes:
        return (
            frame
            if self._editor_session_id == self._session_id
            else rename_session(frame, {self._session_id: self._editor_session_id})
        )

    # --- what the host says -----------------------------------------------------------------------------------

    def route_host_frame(self, frame: Frame) -> RoutedFrames:
        """The host says this; gives what follows."""
        if not isinstance(frame, bytes) or not (self._open_requests or self._editor_session_id != self._session_id):
            return RoutedFrames([frame])
        said = decode_frame(frame)
        if said is None:
            return RoutedFrames([frame])
        if said.get("method") is not None:
            if self._attach_request_id is not None and session_of(said.get("params")) == self._session_id:
                self._held_frames.append(
                    self._rename_for_editor(frame)
                )  # an editor knows no session before the answer that opens it
                return RoutedFrames([])
            return RoutedFrames([self._rename_for_editor(frame)])
        asked = self._open_requests.pop(said.get("id"), None)
        if asked is None:
            return RoutedFrames([frame])
        if said.get("id") == self._attach_request_id:
            return self._on_attached(frame, said)
        if "error" in said:
            return self._on_error(frame, said, asked)
        return self._on_result(frame, said, asked)

    def _on_attached(self, frame: bytes, message: dict[str, Any]) -> RoutedFrames:
        """The answer to what the editor takes for a new session; then what was said there before."""
        held, self._held_frames, self._attach_request_id = self._held_frames, [], None
        told = message.get("result")
        if not isinstance(told, dict):
            return RoutedFrames([frame, *held])
        self._is_attached = True
        if self._frames.is_native:
            return RoutedFrames([_encode({**message, "result": {"sessionId": self._editor_session_id, **told}}), *held])
        result = {
            name: value for name, value in self._frames.lift_result("session/load", told).items() if name != "_meta"
        }
        result = {
            **result,
            "sessionId": self._editor_session_id,
            "_meta": {"dragoman": {"createdAt": self._created_at}},
        }
        answer = decode_frame(self._frames.encode_result(message["id"], "session/new", result)) or {}
        if "_meta" in told:  # with what this dialect has no place for
            answer["result"]["_meta"] = told["_meta"]
        return RoutedFrames([_encode(answer), *held])

    def _on_error(self, frame: bytes, message: dict[str, Any], request: EditorRequest) -> RoutedFrames:
        """A session that the host does not know is this one, which the editor then has under that name."""
        named = request.params.get("sessionId")
        is_lost = request.method in _REOPENS_SESSION and named != self._session_id and isinstance(named, str)
        if not is_lost or self._is_attached or self._frames.lift_error(message["error"]).kind != Kind.SESSION_NOT_FOUND:
            return RoutedFrames([frame])
        self._editor_session_id = str(named)
        params = {**request.params, "sessionId": self._session_id}
        self._open_requests[message["id"]] = EditorRequest(request.method, params)
        if request.method == "session/attach":
            return RoutedFrames([], [self._frames.encode_request(request.method, params, message["id"])])
        return RoutedFrames([], [self._load_frame(request.method, params, message["id"])])

    def _on_result(self, frame: bytes, message: dict[str, Any], request: EditorRequest) -> RoutedFrames:
        named = request.params.get("sessionId")
        if request.method == "session/list":
            return RoutedFrames([self._list_with_session(frame, message, request)])
        if named in (self._session_id, self._editor_session_id):
            self._is_attached = request.method in _REOPENS_SESSION
            if not self._is_attached:
                self._editor_session_id = self._session_id
        return RoutedFrames([frame])

    def _list_with_session(self, frame: bytes, message: dict[str, Any], request: EditorRequest) -> bytes:
        """The list with this session first, whatever folder was asked for; once, however many pages there are."""
        result = message.get("result")
        sessions = result.get("sessions") if isinstance(result, dict) else None
        if not isinstance(result, dict) or not isinstance(sessions, list):
            return frame
        ours = [each for each in sessions if isinstance(each, dict) and each.get("sessionId") == self._session_id]
        rest = [each for each in sessions if each not in ours]
        first = (ours or [self._list_entry])[:1] if not request.params.get("cursor") else []
        return _encode({**message, "result": {**result, "sessions": [*first, *rest]}})
