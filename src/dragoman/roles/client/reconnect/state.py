"""What a client must remember of a connection to join its sessions again over another one. Pure, reads frames.

Sees every frame that passes, both ways: the introduction, the sessions and the last entry of their logs that was
delivered, what is open on either side. Gives the frames with which a new connection takes up where the last one ended.
Knows methods of the vocabulary; how client and agent spell them is for overheard.py.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialect.side_data import side
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.client.reconnect.frames import Overheard, about, decoded, head_of, renamed, session_of
from dragoman.wire.envelope import Id
from dragoman.wire.frames import Frame

UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"'
_SEQ = b'"_meta":{"dragoman":{"seq":'
_DIGITS = b"0123456789"
_MOST_DIGITS = 20

# Requests after whose success a connection has a session, and after whose success it has it no more.
_ENTERING = frozenset({"session/new", "session/load", "session/resume", "session/fork", "session/attach"})
_LEAVING = frozenset({"session/close", "session/delete", "session/detach"})

# Of what a session was opened with: what those want to hear again who let us in.
_KEPT = ("cwd", "mcpServers", "additionalDirectories", "role")

_encode = msgspec.json.encode


class Stay(msgspec.Struct):
    """One session that the client is in: what it was opened with, and the last entry it was told."""

    params: dict[str, Any]
    id: str  # what the agent calls it; another name than the client's where that chose one (2025.1)
    seq: int | None = None
    told: int | None = None  # the last entry of all earlier connections


class Open(msgspec.Struct, frozen=True):
    """A request of ours that is not answered yet: in the vocabulary, and what it was called."""

    method: str
    params: dict[str, Any]
    said: str


class Whereabouts:
    """The memory of one client, across its connections."""

    def __init__(self) -> None:
        self.words = Overheard()
        self.introduction: dict[str, Any] | None = None  # the initialize request
        self.introduced: dict[str, Any] | None = None  # the last answer to it, in the vocabulary
        self.is_hosted = False  # whether the other end counts what it tells, and goes on from where we were
        self.stays: dict[str, Stay] = {}
        self.open: dict[Id, Open] = {}
        self.asked: dict[Id, Any] = {}  # the agent's requests, by the id we show: the id it gave
        self._shown: dict[bytes, Id] = {}  # by their words, where they cannot be taken back: the id we show
        self._questions: dict[str, int] = {}  # and those that are updates: when they were last put
        self._round = 0  # how often the connection was replaced
        self._head = b""  # how the last update began, and the session it is of: most of a stream is alike
        self._stay: Stay | None = None
        self._ours: dict[str, str] = {}  # sessions by the agent's name, where that is not the client's
        self._theirs: dict[str, str] = {}

    # --- what passes ------------------------------------------------------------------------------------------

    def went(self, frame: bytes) -> bytes | None:
        """We say this; gives it as the present connection must hear it, None when that must not hear it at all."""
        said = decoded(frame)
        if said is None:
            return frame
        method, id = said.get("method"), said.get("id")
        if method is None:
            return self._answered(frame, said)
        params = said.get("params")
        if method == "initialize" and self.introduction is None:
            self.words.met(params)
            self.introduction = said
            if (asking := self.words.returning(params)) is not params:
                self.introduction = said = {**said, "params": asking}
                frame = _encode(said)
        lifted, values = self.words.call(str(method), params)
        if lifted == "permission_response":
            self._questions.pop(about(values), None)
        if "id" in said:
            self.open[id] = Open(lifted, values, str(method))
        return renamed(frame, self._theirs) if self._theirs else frame

    def _answered(self, frame: bytes, said: dict[str, Any]) -> bytes | None:
        id = said.get("id")
        self._shown = {words: shown for words, shown in self._shown.items() if shown != id}
        if id not in self.asked:
            return None if self._round else frame  # an answer to somebody who is no longer there
        given = self.asked.pop(id)
        return frame if given == id else _encode({**said, "id": given})

    def pass_on(self, frames: list[Frame]) -> list[Frame]:
        """The agent says these; gives them as we should hear them. Most are updates of one session and pass at once."""
        if self._round == 0 and (self.words.dialect.cancels or not self.is_hosted):
            head = self._head or UPDATE
            odd = [frame for frame in frames if type(frame) is not bytes or not frame.startswith(head) or _SEQ in frame]
            if not odd:
                return frames
            if head is not UPDATE and all(type(frame) is bytes and frame.startswith(head) for frame in odd):
                self.came(odd[-1])  # type: ignore[arg-type]  # the numbers of a log only grow: the last one counts
                return frames
        came = self.came
        return [each for frame in frames if (each := came(frame) if type(frame) is bytes else frame) is not None]

    def came(self, frame: bytes) -> bytes | None:
        """The agent says this; gives it as we should hear it, None for what we have heard before."""
        if self._ours:
            frame = renamed(frame, self._ours)
        if frame.startswith(UPDATE):
            place = frame.rfind(_SEQ)  # the last one is the host's: tools may say what they like before it
            is_news = self._is_unasked(frame) if place < 0 else self._is_news(frame, place)
            return frame if is_news else None
        said = decoded(frame)
        if said is None:
            return frame
        id = said.get("id")
        if said.get("method") is not None:
            return self._asks(frame, said) if "id" in said else frame
        was = self.open.pop(id, None)
        if was is not None and isinstance(said.get("result"), dict):
            self._succeeded(was.method, was.params, said["result"])
        return frame

    def _asks(self, frame: bytes, said: dict[str, Any]) -> bytes | None:
        """A request of the agent's; one that the client still has before it is not put again."""
        id = said["id"]
        shown = id if not self._round else f"{self._round}/{id}"
        if not self.words.dialect.cancels:
            words = _encode([said["method"], said.get("params")])
            before = self._shown.setdefault(words, shown)
            if before != shown and before not in self.asked:
                self.asked[before] = id
                return None
            self._shown[words] = shown
        self.asked[shown] = id
        return frame if shown == id else _encode({**said, "id": shown})

    def _is_unasked(self, frame: bytes) -> bool:
        """Whether an update is no question that the client has before it since an earlier connection (crow)."""
        if self.words.dialect.cancels or not self.is_hosted or (key := self.words.question(frame)) is None:
            return True
        before, self._questions[key] = self._questions.get(key, self._round), self._round
        return before == self._round

    def _succeeded(self, method: str, params: dict[str, Any], told: dict[str, Any]) -> None:
        if method == "initialize":
            self.met(told)
        elif method in _LEAVING:
            self.left(str(params.get("sessionId")))
        elif method in _ENTERING:
            named = params.get("sessionId")
            if method in ("session/new", "session/fork"):
                named = self.words.result(method, told).get("sessionId") or side(params).get("sessionId")
            if isinstance(named, str):
                own = _inside(told, "_meta", "dragoman", "session")
                kept = {name: value for name, value in params.items() if name in _KEPT}
                known = self.stays.get(named) or Stay({}, own if isinstance(own, str) else named)
                known.params = kept or known.params
                self.stays[named] = known
                self._head = b""

    def met(self, told: dict[str, Any]) -> None:
        """The agent answered the introduction with this."""
        self.introduced = self.words.result("initialize", told)
        self.is_hosted = bool(_inside(self.introduced, "agentCapabilities", "_meta", "dragoman", "attach"))

    def left(self, session: str) -> None:
        """We are not in this session any more."""
        self.stays.pop(session, None)
        self._head = b""

    def _is_news(self, frame: bytes, place: int) -> bool:
        """Note the number that the log gives an update; whether it is later than the last one of earlier connections.

        One entry may be several updates in a dialect that has smaller words for it, so an equal number is no sign.
        """
        digits = frame[place + len(_SEQ) : place + len(_SEQ) + _MOST_DIGITS]
        number = digits[: len(digits) - len(digits.lstrip(_DIGITS))]
        stay = self._stay_of(frame)
        if stay is None or not number:
            return True
        seq = int(number)
        if stay.told is not None and seq <= stay.told:
            return False
        stay.seq = seq
        return True

    def _stay_of(self, frame: bytes) -> Stay | None:
        if self._head and frame.startswith(self._head):
            return self._stay
        found = head_of(frame)
        if found is None:
            return None
        head, name = found
        stay = self.stays.get(name)
        if stay is None and self._is_entering(name):
            stay = self.stays[name] = Stay({}, name)  # told before the answer that opens it (peers.md 13)
        if stay is not None:
            self._head, self._stay = head, stay
        return stay

    def _is_entering(self, name: str) -> bool:
        return any(
            each.method == "session/new" or (each.method in _ENTERING and each.params.get("sessionId") == name)
            for each in self.open.values()
        )

    # --- another connection -----------------------------------------------------------------------------------

    @property
    def can_return(self) -> bool:
        """Whether there is something to go back to, and a way in."""
        return self.introduced is not None and (not self.stays or self.way_in() is not None)

    def way_in(self) -> str | None:
        """The method by which the agent lets a client into a session that it had before."""
        offered = (self.introduced or {}).get("agentCapabilities")
        if self.is_hosted:
            return "session/attach" if self.words.is_plain else "session/load"
        if _inside(offered, "sessionCapabilities", "resume") is not None:
            return "session/resume"
        return "session/load" if _inside(offered, "loadSession") is True else None

    def part(self) -> list[bytes]:
        """The connection is gone: what the agent asked is taken back from us, where the client knows of such a thing.

        Where it does not, the question stays before it, and an answer goes to whoever asks the same again.
        """
        self._round += 1
        gone, self.asked = self.asked, {}
        self._head = b""
        for stay in self.stays.values():
            stay.told = stay.seq
        if not self.words.dialect.cancels:
            return []
        return [_encode(_call("$/cancel_request", {"requestId": id})) for id in gone]

    def unsaid(self, frames: list[bytes]) -> list[bytes]:
        """Of frames that never left: the calls, which can be made over another connection; answers have lost theirs."""
        calls = []
        for frame in frames:
            said = decoded(frame)
            if said is not None and said.get("method") is not None:
                self.open.pop(said.get("id"), None)
                calls.append(renamed(frame, self._ours) if self._ours else frame)
        return calls

    def lost(self) -> list[bytes]:
        """Answers in the agent's place to all that is open, for its own will not come any more."""
        waiting, self.open = self.open, {}
        return [self.words.say_error(id, _lost(was)) for id, was in waiting.items()]

    def introducing(self, id: Id) -> bytes:
        """The same introduction once more."""
        return _encode({**(self.introduction or {}), "id": id})

    def entering(self, session: str, id: Id) -> bytes:
        """The request that joins a session again, from where we know it; by the name that the agent has for it."""
        stay, method = self.stays[session], self.way_in() or "session/load"
        if stay.id != session:
            self._ours[stay.id], self._theirs[session] = session, stay.id
        params = {name: value for name, value in stay.params.items() if name != "role"}
        if method == "session/attach":
            params = {"sessionId": stay.id, **{name: value for name, value in stay.params.items() if name == "role"}}
            # Without a number nothing of the log was told yet, and all of it is news.
            params |= {"cursor": stay.seq} if stay.seq is not None else {"historyPolicy": "full"}
        else:
            params = {"cwd": "/", "mcpServers": [], **params, "sessionId": stay.id}
            if stay.seq is not None:
                params["_meta"] = {"dragoman": {"cursor": stay.seq}}
        return self.words.say(method, params, id)

    def is_history(self, frame: Frame, session: str) -> bool:
        """Whether this is an update of that session."""
        if type(frame) is not bytes or b'"session/update"' not in frame:
            return False
        said, stay = decoded(frame), self.stays.get(session)
        is_update = said is not None and said.get("method") == "session/update"
        return is_update and stay is not None and session_of((said or {}).get("params")) == stay.id


def _lost(was: Open) -> ProtocolError:
    what = (
        "what the turn said so far and says from now on is shown as it comes; prompt again if it does not go on"
        if was.method == "session/prompt"
        else "it may have been done or not; ask again"
    )
    message = f"the connection was lost before {was.said} was answered: {what}"
    return ProtocolError(Kind.CONNECTION_LOST, message, {"method": was.said})


def _call(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _inside(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
