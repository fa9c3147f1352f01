"""Where an editor lands that was sent into a session: what it opens is that one, whatever it knows of sessions. Pure.

Reads the frames between an editor and a host, changes those that open or list sessions, and passes all others. A
session that the editor calls by another name (its own choice in 2025.1, or one that the host does not know) is renamed
both ways. Above is attached.py; how the editor spells is for overheard.py.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialect.side_data import side
from dragoman.errors import Kind
from dragoman.roles.client.reconnect.frames import Overheard, decoded, renamed, session_of
from dragoman.wire.envelope import Id
from dragoman.wire.frames import Frame

_RETURNING = frozenset({"session/load", "session/resume", "session/attach"})
_LEAVING = frozenset({"session/close", "session/delete", "session/detach"})

_encode = msgspec.json.encode


class Heard(msgspec.Struct, frozen=True):
    """What follows from a frame of the host's: what the editor hears, and what the host is told."""

    editor: list[Frame]
    host: list[bytes] = []


class Asked(msgspec.Struct, frozen=True):
    """A request of the editor's, in the vocabulary."""

    method: str
    params: dict[str, Any]


class Landing:
    """The session that an editor is sent into, and what it must not notice of that."""

    def __init__(self, session: str, listed: dict[str, Any], created: str = "") -> None:
        self._session = session
        self._listed = listed  # how session/list shows it
        self._created = created
        self._words = Overheard()
        self._is_in = False
        self._open: dict[Id, Asked] = {}
        self._landing: Id = None  # the session/new that became a load, while it is not answered
        self._held: list[Frame] = []  # what the host says of the session meanwhile
        self._name = session  # what the editor calls it

    # --- what the editor says ---------------------------------------------------------------------------------

    def went(self, frame: Frame) -> Frame:
        """The editor says this; gives what the host is told."""
        said = decoded(frame) if isinstance(frame, bytes) else None
        if said is None or said.get("method") is None:
            return frame
        method, params, id = str(said["method"]), said.get("params"), said.get("id")
        if method == "initialize":
            self._words.met(params)
        asked = Asked(*self._words.call(method, params))
        if id is not None and asked.method == "session/new" and not self._is_in and self._landing is None:
            chosen = side(asked.params).get("sessionId")
            self._name = chosen if isinstance(chosen, str) and chosen else self._session
            self._landing, self._open[id] = id, asked
            return self._load("session/load", asked.params, id)
        if id is not None and asked.method in _RETURNING | _LEAVING | {"session/list"}:
            self._open[id] = asked
        return self._outwards(frame) if isinstance(frame, bytes) else frame

    def _load(self, method: str, params: dict[str, Any], id: Id) -> bytes:
        given = {name: value for name, value in params.items() if name in ("cwd", "mcpServers")}
        return self._words.say(method, {"cwd": "/", "mcpServers": [], **given, "sessionId": self._session}, id)

    def _outwards(self, frame: bytes) -> bytes:
        return frame if self._name == self._session else renamed(frame, {self._name: self._session})

    def _inwards(self, frame: bytes) -> bytes:
        return frame if self._name == self._session else renamed(frame, {self._session: self._name})

    # --- what the host says -----------------------------------------------------------------------------------

    def came(self, frame: Frame) -> Heard:
        """The host says this; gives what follows."""
        if not isinstance(frame, bytes) or not (self._open or self._name != self._session):
            return Heard([frame])
        said = decoded(frame)
        if said is None:
            return Heard([frame])
        if said.get("method") is not None:
            if self._landing is not None and session_of(said.get("params")) == self._session:
                self._held.append(self._inwards(frame))  # an editor knows no session before the answer that opens it
                return Heard([])
            return Heard([self._inwards(frame)])
        asked = self._open.pop(said.get("id"), None)
        if asked is None:
            return Heard([frame])
        if said.get("id") == self._landing:
            return self._landed(frame, said)
        if "error" in said:
            return self._refused(frame, said, asked)
        return self._done(frame, said, asked)

    def _landed(self, frame: bytes, said: dict[str, Any]) -> Heard:
        """The answer to what the editor takes for a new session; then what was said there before."""
        held, self._held, self._landing = self._held, [], None
        told = said.get("result")
        if not isinstance(told, dict):
            return Heard([frame, *held])
        self._is_in = True
        if self._words.is_plain:
            return Heard([_encode({**said, "result": {"sessionId": self._name, **told}}), *held])
        result = {name: value for name, value in self._words.result("session/load", told).items() if name != "_meta"}
        result = {**result, "sessionId": self._name, "_meta": {"dragoman": {"createdAt": self._created}}}
        answer = decoded(self._words.say_result(said["id"], "session/new", result)) or {}
        if "_meta" in told:  # with what this dialect has no place for
            answer["result"]["_meta"] = told["_meta"]
        return Heard([_encode(answer), *held])

    def _refused(self, frame: bytes, said: dict[str, Any], asked: Asked) -> Heard:
        """A session that the host does not know is this one, which the editor then has under that name."""
        named = asked.params.get("sessionId")
        is_lost = asked.method in _RETURNING and named != self._session and isinstance(named, str)
        if not is_lost or self._is_in or self._words.fault(said["error"]).kind != Kind.SESSION_NOT_FOUND:
            return Heard([frame])
        self._name = str(named)
        params = {**asked.params, "sessionId": self._session}
        self._open[said["id"]] = Asked(asked.method, params)
        if asked.method == "session/attach":
            return Heard([], [self._words.say(asked.method, params, said["id"])])
        return Heard([], [self._load(asked.method, params, said["id"])])

    def _done(self, frame: bytes, said: dict[str, Any], asked: Asked) -> Heard:
        named = asked.params.get("sessionId")
        if asked.method == "session/list":
            return Heard([self._listing(frame, said, asked)])
        if named in (self._session, self._name):
            self._is_in = asked.method in _RETURNING
            if not self._is_in:
                self._name = self._session
        return Heard([frame])

    def _listing(self, frame: bytes, said: dict[str, Any], asked: Asked) -> bytes:
        """The list with this session first, whatever folder was asked for; once, however many pages there are."""
        result = said.get("result")
        sessions = result.get("sessions") if isinstance(result, dict) else None
        if not isinstance(result, dict) or not isinstance(sessions, list):
            return frame
        ours = [each for each in sessions if isinstance(each, dict) and each.get("sessionId") == self._session]
        rest = [each for each in sessions if each not in ours]
        first = (ours or [self._listed])[:1] if not asked.params.get("cursor") else []
        return _encode({**said, "result": {**result, "sessions": [*first, *rest]}})
