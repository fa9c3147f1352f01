"""What a client must remember of a connection to join its sessions again over another one. Pure, reads frames.

Sees every frame that passes, both ways: the introduction, the sessions and the last entry of their logs that was
delivered, what is open on either side. Gives the frames with which a new connection takes up where the last one ended.
Knows methods of the vocabulary; how client and agent spell them is for overheard.py.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialect.side_data import side_data_of
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.client.reconnect.frames import (
    DialectFrames,
    decode_frame,
    question_key,
    rename_session,
    session_of,
    update_head,
)
from dragoman.wire.envelope import Id
from dragoman.wire.frames import Frame

UPDATE_PREFIX = b'{"jsonrpc":"2.0","method":"session/update","params":{"'
_SEQ_PREFIX = b'"_meta":{"dragoman":{"seq":'
_DIGITS = b"0123456789"
_MAX_DIGITS = 20

# Requests after whose success a connection has a session, and after whose success it has it no more.
_OPENS_SESSION = frozenset({"session/new", "session/load", "session/resume", "session/fork", "session/attach"})
_ENDS_SESSION = frozenset({"session/close", "session/delete", "session/detach"})

# Of what a session was opened with: what those want to hear again who let us in.
_KEPT_PARAMS = ("cwd", "mcpServers", "additionalDirectories", "role")

_encode = msgspec.json.encode


class AttachedSession(msgspec.Struct):
    """One session that the client is in: what it was opened with, and the last entry it was told."""

    params: dict[str, Any]
    id: str  # what the agent calls it; another name than the client's where that chose one (2025.1)
    seq: int | None = None
    seen_seq: int | None = None  # the last entry of all earlier connections


class OpenRequest(msgspec.Struct, frozen=True):
    """A request of ours that is not answered yet: in the vocabulary, and what it was called."""

    method: str
    params: dict[str, Any]
    wire_method: str


class ReconnectState:
    """The memory of one client, across its connections."""

    def __init__(self) -> None:
        self.frames = DialectFrames()
        self.initialize_request: dict[str, Any] | None = None  # the initialize request
        self.initialize_result: dict[str, Any] | None = None  # the last answer to it, in the vocabulary
        self.is_hosted = False  # whether the other end counts what it tells, and goes on from where we were
        self.sessions: dict[str, AttachedSession] = {}
        self.open_requests: dict[Id, OpenRequest] = {}
        self.agent_requests: dict[Id, Any] = {}  # the agent's requests, by the id we show: the id it gave
        self._shown_ids: dict[bytes, Id] = {}  # by their words, where they cannot be taken back: the id we show
        self._question_rounds: dict[str, int] = {}  # and those that are updates: when they were last put
        self._reconnect_count = 0  # how often the connection was replaced
        self._update_head = b""  # how the last update began, and the session it is of: most of a stream is alike
        self._update_session: AttachedSession | None = None
        self._client_ids: dict[str, str] = {}  # sessions by the agent's name, where that is not the client's
        self._agent_ids: dict[str, str] = {}

    # --- what passes ------------------------------------------------------------------------------------------

    def filter_outgoing(self, frame: bytes) -> bytes | None:
        """We say this; gives it as the present connection must hear it, None when that must not hear it at all."""
        said = decode_frame(frame)
        if said is None:
            return frame
        method, id = said.get("method"), said.get("id")
        if method is None:
            return self._filter_answer(frame, said)
        params = said.get("params")
        if method == "initialize" and self.initialize_request is None:
            self.frames.detect_client(params)
            self.initialize_request = said
            if (asking := self.frames.with_reconnect_capability(params)) is not params:
                self.initialize_request = said = {**said, "params": asking}
                frame = _encode(said)
        lifted, values = self.frames.lift_call(str(method), params)
        if lifted == "permission_response":
            self._question_rounds.pop(question_key(values), None)
        if "id" in said:
            self.open_requests[id] = OpenRequest(lifted, values, str(method))
        return rename_session(frame, self._agent_ids) if self._agent_ids else frame

    def _filter_answer(self, frame: bytes, message: dict[str, Any]) -> bytes | None:
        id = message.get("id")
        self._shown_ids = {words: shown for words, shown in self._shown_ids.items() if shown != id}
        if id not in self.agent_requests:
            return None if self._reconnect_count else frame  # an answer to somebody who is no longer there
        given = self.agent_requests.pop(id)
        return frame if given == id else _encode({**message, "id": given})

    def filter_incoming(self, frames: list[Frame]) -> list[Frame]:
        """The agent says these; gives them as we should hear them. Most are updates of one session and pass at once."""
        if self._reconnect_count == 0 and (self.frames.dialect.cancels or not self.is_hosted):
            head = self._update_head or UPDATE_PREFIX
            odd = [
                frame
                for frame in frames
                if type(frame) is not bytes or not frame.startswith(head) or _SEQ_PREFIX in frame
            ]
            if not odd:
                return frames
            if head is not UPDATE_PREFIX and all(type(frame) is bytes and frame.startswith(head) for frame in odd):
                self.filter_frame(odd[-1])  # type: ignore[arg-type]  # the numbers of a log only grow: the last one counts
                return frames
        came = self.filter_frame
        return [each for frame in frames if (each := came(frame) if type(frame) is bytes else frame) is not None]

    def filter_frame(self, frame: bytes) -> bytes | None:
        """The agent says this; gives it as we should hear it, None for what we have heard before."""
        if self._client_ids:
            frame = rename_session(frame, self._client_ids)
        if frame.startswith(UPDATE_PREFIX):
            place = frame.rfind(_SEQ_PREFIX)  # the last one is the host's: tools may say what they like before it
            is_news = self._is_new_question(frame) if place < 0 else self._is_new_entry(frame, place)
            return frame if is_news else None
        said = decode_frame(frame)
        if said is None:
            return frame
        id = said.get("id")
        if said.get("method") is not None:
            return self._filter_request(frame, said) if "id" in said else frame
        was = self.open_requests.pop(id, None)
        if was is not None and isinstance(said.get("result"), dict):
            self._note_success(was.method, was.params, said["result"])
        return frame

    def _filter_request(self, frame: bytes, message: dict[str, Any]) -> bytes | None:
        """A request of the agent's; one that the client still has before it is not put again."""
        id = message["id"]
        shown = id if not self._reconnect_count else f"{self._reconnect_count}/{id}"
        if not self.frames.dialect.cancels:
            words = _encode([message["method"], message.get("params")])
            before = self._shown_ids.setdefault(words, shown)
            if before != shown and before not in self.agent_requests:
                self.agent_requests[before] = id
                return None
            self._shown_ids[words] = shown
        self.agent_requests[shown] = id
        return frame if shown == id else _encode({**message, "id": shown})

    def _is_new_question(self, frame: bytes) -> bool:
        """Whether an update is no question that the client has before it since an earlier connection (crow)."""
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
            named = params.get("sessionId")
            if method in ("session/new", "session/fork"):
                named = self.frames.lift_result(method, result).get("sessionId") or side_data_of(params).get(
                    "sessionId"
                )
            if isinstance(named, str):
                own = _get_path(result, "_meta", "dragoman", "session")
                kept = {name: value for name, value in params.items() if name in _KEPT_PARAMS}
                known = self.sessions.get(named) or AttachedSession({}, own if isinstance(own, str) else named)
                known.params = kept or known.params
                self.sessions[named] = known
                self._update_head = b""

    def note_initialized(self, result: dict[str, Any]) -> None:
        """The agent answered the introduction with this."""
        self.initialize_result = self.frames.lift_result("initialize", result)
        self.is_hosted = bool(_get_path(self.initialize_result, "agentCapabilities", "_meta", "dragoman", "attach"))

    def remove_session(self, session: str) -> None:
        """We are not in this session any more."""
        self.sessions.pop(session, None)
        self._update_head = b""

    def _is_new_entry(self, frame: bytes, position: int) -> bool:
        """Note the number that the log gives an update; whether it is later than the last one of earlier connections.

        One entry may be several updates in a dialect that has smaller words for it, so an equal number is no sign.
        """
        digits = frame[position + len(_SEQ_PREFIX) : position + len(_SEQ_PREFIX) + _MAX_DIGITS]
        number = digits[: len(digits) - len(digits.lstrip(_DIGITS))]
        stay = self._session_of_update(frame)
        if stay is None or not number:
            return True
        seq = int(number)
        if stay.seen_seq is not None and seq <= stay.seen_seq:
            return False
        stay.seq = seq
        return True

    def _session_of_update(self, frame: bytes) -> AttachedSession | None:
        if self._update_head and frame.startswith(self._update_head):
            return self._update_session
        found = update_head(frame)
        if found is None:
            return None
        head, name = found
        stay = self.sessions.get(name)
        if stay is None and self._is_opening(name):
            stay = self.sessions[name] = AttachedSession({}, name)  # told before the answer that opens it (peers.md 13)
        if stay is not None:
            self._update_head, self._update_session = head, stay
        return stay

    def _is_opening(self, name: str) -> bool:
        return any(
            each.method == "session/new" or (each.method in _OPENS_SESSION and each.params.get("sessionId") == name)
            for each in self.open_requests.values()
        )

    # --- another connection -----------------------------------------------------------------------------------

    @property
    def can_reconnect(self) -> bool:
        """Whether there is something to go back to, and a way in."""
        return self.initialize_result is not None and (not self.sessions or self.attach_method() is not None)

    def attach_method(self) -> str | None:
        """The method by which the agent lets a client into a session that it had before."""
        offered = (self.initialize_result or {}).get("agentCapabilities")
        if self.is_hosted:
            return "session/attach" if self.frames.is_native else "session/load"
        if _get_path(offered, "sessionCapabilities", "resume") is not None:
            return "session/resume"
        return "session/load" if _get_path(offered, "loadSession") is True else None

    def on_disconnect(self) -> list[bytes]:
        """The connection is gone: what the agent asked is taken back from us, where the client knows of such a thing.

        Where it does not, the question stays before it, and an answer goes to whoever asks the same again.
        """
        self._reconnect_count += 1
        gone, self.agent_requests = self.agent_requests, {}
        self._update_head = b""
        for stay in self.sessions.values():
            stay.seen_seq = stay.seq
        if not self.frames.dialect.cancels:
            return []
        return [_encode(_notification("$/cancel_request", {"requestId": id})) for id in gone]

    def resendable_calls(self, frames: list[bytes]) -> list[bytes]:
        """Of frames that never left: the calls, which can be made over another connection; answers have lost theirs."""
        calls = []
        for frame in frames:
            said = decode_frame(frame)
            if said is not None and said.get("method") is not None:
                self.open_requests.pop(said.get("id"), None)
                calls.append(rename_session(frame, self._client_ids) if self._client_ids else frame)
        return calls

    def fail_open_requests(self) -> list[bytes]:
        """Answers in the agent's place to all that is open, for its own will not come any more."""
        waiting, self.open_requests = self.open_requests, {}
        return [self.frames.encode_error(id, _lost_error(was)) for id, was in waiting.items()]

    def initialize_frame(self, id: Id) -> bytes:
        """The same introduction once more."""
        return _encode({**(self.initialize_request or {}), "id": id})

    def attach_frame(self, session: str, id: Id) -> bytes:
        """The request that joins a session again, from where we know it; by the name that the agent has for it."""
        stay, method = self.sessions[session], self.attach_method() or "session/load"
        if stay.id != session:
            self._client_ids[stay.id], self._agent_ids[session] = session, stay.id
        params = {name: value for name, value in stay.params.items() if name != "role"}
        if method == "session/attach":
            params = {"sessionId": stay.id, **{name: value for name, value in stay.params.items() if name == "role"}}
            # Without a number nothing of the log was told yet, and all of it is news.
            params |= {"cursor": stay.seq} if stay.seq is not None else {"historyPolicy": "full"}
        else:
            params = {"cwd": "/", "mcpServers": [], **params, "sessionId": stay.id}
            if stay.seq is not None:
                params["_meta"] = {"dragoman": {"cursor": stay.seq}}
        return self.frames.encode_request(method, params, id)

    def is_update_of(self, frame: Frame, session: str) -> bool:
        """Whether this is an update of that session."""
        if type(frame) is not bytes or b'"session/update"' not in frame:
            return False
        said, stay = decode_frame(frame), self.sessions.get(session)
        is_update = said is not None and said.get("method") == "session/update"
        return is_update and stay is not None and session_of((said or {}).get("params")) == stay.id


def _lost_error(request: OpenRequest) -> ProtocolError:
    what = (
        "what the turn said so far and says from now on is shown as it comes; prompt again if it does not go on"
        if request.method == "session/prompt"
        else "it may have been done or not; ask again"
    )
    message = f"the connection was lost before {request.wire_method} was answered: {what}"
    return ProtocolError(Kind.CONNECTION_LOST, message, {"method": request.wire_method})


def _notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _get_path(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
