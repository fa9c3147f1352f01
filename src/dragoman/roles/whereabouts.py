"""What a client must remember of a connection to join its sessions again over another one. Pure, reads frames.

Sees every frame that passes, both ways: the introduction, the sessions and the last entry of their logs that was
delivered, what is open on either side. Gives the frames with which a new connection takes up where the last one ended.
Knows the official spelling of a few methods and no dialect: who introduces itself in another spelling is not rejoined.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.wire.envelope import Id
from dragoman.wire.frames import Frame

# The reason that a request is answered with when its own answer is lost for good.
CONNECTION_LOST = "connection_lost"

UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'
_SEQ = b'"dragoman":{"seq":'
_DIGITS = b"0123456789"
_MOST_DIGITS = 20

# Requests after whose success a connection has a session, and after whose success it has it no more.
_ENTERING = frozenset({"session/new", "session/load", "session/resume", "session/fork", "session/attach"})
_LEAVING = frozenset({"session/close", "session/delete", "session/detach"})

_encode = msgspec.json.encode


class Stay(msgspec.Struct):
    """One session that the client is in: what it was opened with, and the last entry it was told."""

    params: dict[str, Any]  # those of session/new that load and resume want too
    seq: int | None = None


class Whereabouts:
    """The memory of one client, across its connections."""

    def __init__(self) -> None:
        self.introduction: dict[str, Any] | None = None  # the initialize request
        self.introduced: dict[str, Any] | None = None  # the last answer to it
        self.stays: dict[str, Stay] = {}
        self.open: dict[Id, tuple[str, dict[str, Any]]] = {}  # our requests: method and params
        self.asked: dict[Id, Any] = {}  # the agent's requests, by the id we show: the id it gave
        self._round = 0  # how often the connection was replaced
        self._head = b""  # how the last update began, and the session it is of: most of a stream is alike
        self._stay: Stay | None = None

    # --- what passes ------------------------------------------------------------------------------------------

    def went(self, frame: bytes) -> bytes | None:
        """We say this; gives it as the present connection must hear it, None when that must not hear it at all."""
        said = _read(frame)
        if said is None:
            return frame
        method, id = said.get("method"), said.get("id")
        params = said.get("params")
        params = params if isinstance(params, dict) else {}
        if method == "initialize" and self.introduction is None:
            self.introduction = said
        if method is not None:
            if "id" in said:
                self.open[id] = (str(method), params)
            return frame
        if id not in self.asked:
            return None if self._round else frame  # an answer to somebody who is no longer there
        given = self.asked.pop(id)
        return frame if given == id else _encode({**said, "id": given})

    def pass_on(self, frames: list[Frame]) -> list[Frame]:
        """The agent says these; gives them as we should hear them. Most are updates of one session and pass at once."""
        if self._round == 0:
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
        if frame.startswith(UPDATE):
            place = frame.find(_SEQ)
            return frame if place < 0 or self._is_news(frame, place) else None
        said = _read(frame)
        if said is None:
            return frame
        id = said.get("id")
        if said.get("method") is not None:
            if "id" not in said:
                return frame
            shown = id if not self._round else f"{self._round}/{id}"
            self.asked[shown] = id
            return frame if shown == id else _encode({**said, "id": shown})
        method, params = self.open.pop(id, ("", {}))
        result = said.get("result")
        if isinstance(result, dict):
            self._succeeded(method, params, result)
        return frame

    def _succeeded(self, method: str, params: dict[str, Any], result: dict[str, Any]) -> None:
        if method == "initialize":
            self.introduced = result
        elif method in _LEAVING:
            self.stays.pop(str(params.get("sessionId")), None)
            self._head = b""
        elif method in _ENTERING:
            named = result.get("sessionId") if method in ("session/new", "session/fork") else params.get("sessionId")
            if isinstance(named, str):
                kept = {name: value for name, value in params.items() if name in ("cwd", "mcpServers")}
                known = self.stays.get(named)
                self.stays[named] = Stay(kept or (known.params if known else {}), known.seq if known else None)
                self._head = b""

    def _is_news(self, frame: bytes, place: int) -> bool:
        """Note the number that the log gives an update; whether it is later than the last one."""
        digits = frame[place + len(_SEQ) : place + len(_SEQ) + _MOST_DIGITS]
        number = digits[: len(digits) - len(digits.lstrip(_DIGITS))]
        stay = self._stay_of(frame)
        if stay is None or not number:
            return True
        seq = int(number)
        if stay.seq is not None and seq <= stay.seq and self._round:
            return False
        stay.seq = seq
        return True

    def _stay_of(self, frame: bytes) -> Stay | None:
        if self._head and frame.startswith(self._head):
            return self._stay
        end = frame.find(b'"', len(UPDATE))
        name = frame[len(UPDATE) : end].decode("utf-8", "replace")
        stay = self.stays.get(name)
        if stay is None and self._is_entering(name):
            stay = self.stays[name] = Stay({})  # told before the answer that opens it (peers.md 13)
        if stay is not None:
            self._head, self._stay = frame[: end + 1], stay
        return stay

    def _is_entering(self, name: str) -> bool:
        return any(
            method == "session/new" or (method in _ENTERING and params.get("sessionId") == name)
            for method, params in self.open.values()
        )

    # --- another connection -----------------------------------------------------------------------------------

    @property
    def can_return(self) -> bool:
        """Whether there is something to go back to, and a way in."""
        return self.introduced is not None and (not self.stays or self.way_in() is not None)

    def way_in(self) -> str | None:
        """The method by which the agent lets a client into a session that it had before."""
        told = self.introduced or {}
        offered = told.get("agentCapabilities")
        offered = offered if isinstance(offered, dict) else {}
        if _inside(offered, "_meta", "dragoman", "attach") or _inside(told, "_meta", "dragoman", "attach"):
            return "session/attach"
        if _inside(offered, "sessionCapabilities", "resume") is not None:
            return "session/resume"
        return "session/load" if offered.get("loadSession") is True else None

    def part(self) -> list[bytes]:
        """The connection is gone: what the agent asked is taken back from us."""
        self._round += 1
        gone, self.asked = self.asked, {}
        self._head = b""
        return [_call("$/cancel_request", {"requestId": id}) for id in gone]

    def unsaid(self, frames: list[bytes]) -> list[bytes]:
        """Of frames that never left: the calls, which can be made over another connection; answers have lost theirs."""
        calls = []
        for frame in frames:
            said = _read(frame)
            if said is not None and said.get("method") is not None:
                self.open.pop(said.get("id"), None)
                calls.append(frame)
        return calls

    def lost(self) -> list[bytes]:
        """Answers in the agent's place to all that is open, for its own will not come any more."""
        waiting, self.open = self.open, {}
        return [_encode({"jsonrpc": "2.0", "id": id, "error": _lost(method)}) for id, (method, _) in waiting.items()]

    def entering(self, session: str, id: Id) -> bytes:
        """The request that joins a session again, from where we know it."""
        stay, method = self.stays[session], self.way_in() or "session/load"
        if method == "session/attach":
            params: dict[str, Any] = {"sessionId": session}
            # Without a number nothing of the log was told yet, and all of it is news.
            params |= {"cursor": stay.seq} if stay.seq is not None else {"historyPolicy": "full"}
        else:
            params = {"sessionId": session, "cwd": "/", "mcpServers": [], **stay.params}
            if stay.seq is not None:
                params["_meta"] = {"dragoman": {"cursor": stay.seq}}
        return _call(method, params, id)


def _lost(method: str) -> dict[str, Any]:
    what = (
        "what the turn said so far and says from now on is shown as it comes; prompt again if it does not go on"
        if method == "session/prompt"
        else "it may have been done or not; ask again"
    )
    message = f"the connection was lost before {method} was answered: {what}"
    return {"code": -32603, "message": message, "data": {"kind": CONNECTION_LOST, "method": method}}


def _call(method: str, params: dict[str, Any], id: Id = None) -> bytes:
    head: dict[str, Any] = {"jsonrpc": "2.0"} if id is None else {"jsonrpc": "2.0", "id": id}
    return _encode({**head, "method": method, "params": params})


def _read(frame: bytes) -> dict[str, Any] | None:
    try:
        said = msgspec.json.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    id = said.get("id")
    return said if id is None or isinstance(id, int | str | float) else None


def _inside(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
