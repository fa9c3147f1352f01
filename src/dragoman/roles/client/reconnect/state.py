"""What a client must remember of a connection to attach to its sessions again over another: initialize, the sessions,
the number of the last log entry that was delivered, and the open requests. It reads every frame. No I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialect.peek import decode_frame, rename_session, session_of, update_head
from dragoman.dialect.side_data import side_data_of
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.client.reconnect.frames import DialectFrames, question_key
from dragoman.schema.methods import methods_that
from dragoman.wire.envelope import Id
from dragoman.wire.frames import Frame

UPDATE_PREFIX = b'{"jsonrpc":"2.0","method":"session/update","params":{"'
_SEQ_PREFIX = b'"_meta":{"dragoman":{"seq":'
_DIGITS = b"0123456789"
_MAX_DIGITS = 20

# Requests that add a session to a connection, and requests that remove one.
_OPENS_SESSION = methods_that("opens", "forks", "reopens", "attaches")
_CREATES_SESSION = methods_that("opens", "forks")
_ENDS_SESSION = methods_that("ends", "detaches")

# The params of the opening request that are sent again.
_KEPT_PARAMS = ("cwd", "mcpServers", "additionalDirectories", "role")

_encode = msgspec.json.encode


class AttachedSession(msgspec.Struct):
    """A session of the client: its params and the last log entry it got."""

    params: dict[str, Any]
    id: str  # the agent's id; the client's own can differ (2025.1)
    seq: int | None = None
    seen_seq: int | None = None  # the last entry of all earlier connections


class OpenRequest(msgspec.Struct, frozen=True):
    """A request of the client that has no answer yet: in the vocabulary, with its name in the dialect."""

    method: str
    params: dict[str, Any]
    wire_method: str


class ReconnectState:
    """What is remembered of one client across its connections."""

    def __init__(self) -> None:
        self.frames = DialectFrames()
        self.initialize_request: dict[str, Any] | None = None  # the initialize request
        self.initialize_result: dict[str, Any] | None = None  # its last result, in the vocabulary
        self.is_hosted = False  # whether the other end is a host, which numbers entries and can continue after one
        self.sessions: dict[str, AttachedSession] = {}
        self.open_requests: dict[Id, OpenRequest] = {}
        self.agent_requests: dict[Id, Any] = {}  # the agent's requests: the id the client sees, the agent's own id
        self._shown_ids: dict[bytes, Id] = {}  # by content, where requests cannot be cancelled: the id the client sees
        self._question_rounds: dict[str, int] = {}  # questions that are updates: their last connection
        self._reconnect_count = 0
        self._update_head = b""  # the start of the last update, and its session: most updates of a stream start alike
        self._update_session: AttachedSession | None = None
        self._client_ids: dict[str, str] = {}  # the client's ids by the agent's, where they differ
        self._agent_ids: dict[str, str] = {}

    # --- frames -----------------------------------------------------------------------------------------------

    def filter_outgoing(self, frame: bytes) -> bytes | None:
        """Note a frame of the client; return it as the current connection must get it, None to drop it."""
        message = decode_frame(frame)
        if message is None:
            return frame
        method, id = message.get("method"), message.get("id")
        if method is None:
            return self._filter_answer(frame, message)
        params = message.get("params")
        if method == "initialize" and self.initialize_request is None:
            self.frames.detect_client(params)
            self.initialize_request = message
            if (extended := self.frames.with_reconnect_capability(params)) is not params:
                self.initialize_request = message = {**message, "params": extended}
                frame = _encode(message)
        lifted, values = self.frames.lift_call(str(method), params)
        if lifted == "permission_response":
            self._question_rounds.pop(question_key(values), None)
        if "id" in message:
            self.open_requests[id] = OpenRequest(lifted, values, str(method))
        return rename_session(frame, self._agent_ids) if self._agent_ids else frame

    def _filter_answer(self, frame: bytes, message: dict[str, Any]) -> bytes | None:
        id = message.get("id")
        self._shown_ids = {content: shown for content, shown in self._shown_ids.items() if shown != id}
        if id not in self.agent_requests:
            return None if self._reconnect_count else frame  # an answer for an earlier connection
        agent_id = self.agent_requests.pop(id)
        return frame if agent_id == id else _encode({**message, "id": agent_id})

    def filter_incoming(self, frames: list[Frame]) -> list[Frame]:
        """Note frames of the agent; return them as the client must get them. Most are updates of one session."""
        if self._reconnect_count == 0 and (self.frames.dialect.cancels or not self.is_hosted):
            head = self._update_head or UPDATE_PREFIX
            others = [
                frame
                for frame in frames
                if type(frame) is not bytes or not frame.startswith(head) or _SEQ_PREFIX in frame
            ]
            if not others:
                return frames
            if head is not UPDATE_PREFIX and all(type(frame) is bytes and frame.startswith(head) for frame in others):
                self.filter_frame(others[-1])  # type: ignore[arg-type]  # the numbers only grow: the last one counts
                return frames
        filter_frame = self.filter_frame
        return [
            each for frame in frames if (each := filter_frame(frame) if type(frame) is bytes else frame) is not None
        ]

    def filter_frame(self, frame: bytes) -> bytes | None:
        """Note a frame of the agent; return it as the client must get it, None if it already had it."""
        if self._client_ids:
            frame = rename_session(frame, self._client_ids)
        if frame.startswith(UPDATE_PREFIX):
            position = frame.rfind(_SEQ_PREFIX)  # the last one is the host's: a tool's output may contain others
            is_new = self._is_new_question(frame) if position < 0 else self._is_new_entry(frame, position)
            return frame if is_new else None
        message = decode_frame(frame)
        if message is None:
            return frame
        id = message.get("id")
        if message.get("method") is not None:
            return self._filter_request(frame, message) if "id" in message else frame
        request = self.open_requests.pop(id, None)
        if request is not None and isinstance(message.get("result"), dict):
            self._note_success(request.method, request.params, message["result"])
        return frame

    def _filter_request(self, frame: bytes, message: dict[str, Any]) -> bytes | None:
        """Note a request of the agent; drop it if the client already shows the same one."""
        id = message["id"]
        shown = id if not self._reconnect_count else f"{self._reconnect_count}/{id}"
        if not self.frames.dialect.cancels:
            content = _encode([message["method"], message.get("params")])
            before = self._shown_ids.setdefault(content, shown)
            if before != shown and before not in self.agent_requests:
                self.agent_requests[before] = id
                return None
            self._shown_ids[content] = shown
        self.agent_requests[shown] = id
        return frame if shown == id else _encode({**message, "id": shown})

    def _is_new_question(self, frame: bytes) -> bool:
        """Return False for a question that the client got on an earlier connection (crow)."""
        if self.frames.dialect.cancels or not self.is_hosted or (key := self.frames.find_question(frame)) is None:
            return True
        before, self._question_rounds[key] = (
            self._question_rounds.get(key, self._reconnect_count),
            self._reconnect_count,
        )
        return before == self._reconnect_count

    def _note_success(self, method: str, params: dict[str, Any], result: dict[str, Any]) -> None:
        if method == "initialize":
            self.note_initialized(result)
        elif method in _ENDS_SESSION:
            self.remove_session(str(params.get("sessionId")))
        elif method in _OPENS_SESSION:
            session_id = params.get("sessionId")
            if method in _CREATES_SESSION:
                lifted = self.frames.lift_result(method, result)
                session_id = lifted.get("sessionId") or side_data_of(params).get("sessionId")
            if isinstance(session_id, str):
                own = _get_path(result, "_meta", "dragoman", "session")
                kept = {name: value for name, value in params.items() if name in _KEPT_PARAMS}
                known = self.sessions.get(session_id) or AttachedSession(
                    {}, own if isinstance(own, str) else session_id
                )
                known.params = kept or known.params
                self.sessions[session_id] = known
                self._update_head = b""

    def note_initialized(self, result: dict[str, Any]) -> None:
        """Note the agent's result of initialize."""
        self.initialize_result = self.frames.lift_result("initialize", result)
        self.is_hosted = bool(_get_path(self.initialize_result, "agentCapabilities", "_meta", "dragoman", "attach"))

    def remove_session(self, session: str) -> None:
        """Forget a session."""
        self.sessions.pop(session, None)
        self._update_head = b""

    def _is_new_entry(self, frame: bytes, position: int) -> bool:
        """Note the log number of an update; return whether it is new to the client.

        One entry may be several updates in a dialect, so an equal number is not old.
        """
        digits = frame[position + len(_SEQ_PREFIX) : position + len(_SEQ_PREFIX) + _MAX_DIGITS]
        number = digits[: len(digits) - len(digits.lstrip(_DIGITS))]
        session = self._session_of_update(frame)
        if session is None or not number:
            return True
        seq = int(number)
        if session.seen_seq is not None and seq <= session.seen_seq:
            return False
        session.seq = seq
        return True

    def _session_of_update(self, frame: bytes) -> AttachedSession | None:
        if self._update_head and frame.startswith(self._update_head):
            return self._update_session
        match = update_head(frame)
        if match is None:
            return None
        head, name = match
        session = self.sessions.get(name)
        if session is None and self._is_opening(name):
            # It arrives before the answer that opens the session (docs/protocol/peers.md#early-updates).
            session = self.sessions[name] = AttachedSession({}, name)
        if session is not None:
            self._update_head, self._update_session = head, session
        return session

    def _is_opening(self, name: str) -> bool:
        return any(
            each.method == "session/new" or (each.method in _OPENS_SESSION and each.params.get("sessionId") == name)
            for each in self.open_requests.values()
        )

    # --- a new connection -------------------------------------------------------------------------------------

    @property
    def can_reconnect(self) -> bool:
        """Whether a new connection could attach to all sessions."""
        return self.initialize_result is not None and (not self.sessions or self.attach_method() is not None)

    def attach_method(self) -> str | None:
        """Return the method that attaches a client to an existing session, or None."""
        offered = (self.initialize_result or {}).get("agentCapabilities")
        if self.is_hosted:
            return "session/attach" if self.frames.is_native else "session/load"
        if _get_path(offered, "sessionCapabilities", "resume") is not None:
            return "session/resume"
        return "session/load" if _get_path(offered, "loadSession") is True else None

    def on_disconnect(self) -> list[bytes]:
        """Note the lost connection; return frames that cancel the agent's requests, where the dialect can do that.

        Elsewhere the client keeps the question, and its answer goes to whoever asks the same again.
        """
        self._reconnect_count += 1
        lost, self.agent_requests = self.agent_requests, {}
        self._update_head = b""
        for session in self.sessions.values():
            session.seen_seq = session.seq
        if not self.frames.dialect.cancels:
            return []
        return [_encode(_notification("$/cancel_request", {"requestId": id})) for id in lost]

    def resendable_calls(self, frames: list[bytes]) -> list[bytes]:
        """Return the calls among unsent frames, to send them again; answers are only for the lost connection."""
        calls = []
        for frame in frames:
            message = decode_frame(frame)
            if message is not None and message.get("method") is not None:
                self.open_requests.pop(message.get("id"), None)
                calls.append(rename_session(frame, self._client_ids) if self._client_ids else frame)
        return calls

    def fail_open_requests(self) -> list[bytes]:
        """Return errors in the agent's place for all open requests, because their answers are lost."""
        requests, self.open_requests = self.open_requests, {}
        return [self.frames.encode_error(id, _lost_error(request)) for id, request in requests.items()]

    def initialize_frame(self, id: Id) -> bytes:
        """Return the same initialize request with another id."""
        return _encode({**(self.initialize_request or {}), "id": id})

    def attach_frame(self, session: str, id: Id) -> bytes:
        """Return the request that attaches to a session after its last entry, by the agent's id."""
        attached, method = self.sessions[session], self.attach_method() or "session/load"
        if attached.id != session:
            self._client_ids[attached.id], self._agent_ids[session] = session, attached.id
        params = {name: value for name, value in attached.params.items() if name != "role"}
        if method == "session/attach":
            params = {
                "sessionId": attached.id,
                **{name: value for name, value in attached.params.items() if name == "role"},
            }
            # Without a number the client has nothing of the log yet.
            params |= {"cursor": attached.seq} if attached.seq is not None else {"historyPolicy": "full"}
        else:
            params = {"cwd": "/", "mcpServers": [], **params, "sessionId": attached.id}
            if attached.seq is not None:
                params["_meta"] = {"dragoman": {"cursor": attached.seq}}
        return self.frames.encode_request(method, params, id)

    def is_update_of(self, frame: Frame, session: str) -> bool:
        """Return whether this is an update of that session."""
        if type(frame) is not bytes or b'"session/update"' not in frame:
            return False
        message, attached = decode_frame(frame), self.sessions.get(session)
        is_update = message is not None and message.get("method") == "session/update"
        return is_update and attached is not None and session_of((message or {}).get("params")) == attached.id


def _lost_error(request: OpenRequest) -> ProtocolError:
    what = (
        "its updates are shown as they arrive; prompt again if it does not continue"
        if request.method == "session/prompt"
        else "it may or may not have been executed; try again"
    )
    message = f"the connection was lost before {request.wire_method} was answered: {what}"
    return ProtocolError(Kind.CONNECTION_LOST, message, {"method": request.wire_method})


def _notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _get_path(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
