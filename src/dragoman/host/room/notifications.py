"""What the members of a room hear of an entry of its log: a table from kinds of entries to news. Pure.

Takes entries, as they are committed or read again, gives news: a method, its params, and who shall hear it. The frame
that official clients share is made once for each entry. Above is the room, which has members; below is the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.engine.outbox import Outbox
from dragoman.errors import ProtocolError
from dragoman.schema.base import encode
from dragoman.schema.lenient import read
from dragoman.schema.prompt import PromptParams
from dragoman.schema.update import Notice, NoticeSeverity, UserMessageChunk
from dragoman.store.contract import EntryKind, Line
from dragoman.store.replay import typed
from dragoman.transport.base import Transport

UPDATE = "session/update"

# What a client can announce that it wants to hear of, under clientCapabilities._meta.dragoman.host.
PRESENCE, QUEUE, TURNS, PERMISSIONS, TERMINALS = "presence", "queue", "turns", "permissions", "terminals"
ANNOUNCED = (PRESENCE, QUEUE, TURNS, PERMISSIONS, TERMINALS)

# What an agent tells its client besides updates, in words of the protocol: about a link, and about who is logged in.
LINK_DONE, LOGIN = "elicitation/complete", "auth/status_update"
FOR_CLIENTS = (LINK_DONE, LOGIN)

# Kinds of updates that every client takes as they are: all others may have to be said otherwise, or not at all.
_COMMON = (
    b'{"sessionUpdate":"agent_message_chunk"',
    b'{"sessionUpdate":"agent_thought_chunk"',
    b'{"sessionUpdate":"user_message_chunk"',
    b'{"sessionUpdate":"tool_call"',
    b'{"sessionUpdate":"tool_call_update"',
    b'{"sessionUpdate":"plan"',
)

_RESTARTS = "The next prompt starts it again."

# Where one of these stands in an update, perhaps only in its text, official v1 may say it otherwise (dialect/v1).
_ODD = (b'"_meta"', b'"awaiting_permission"', b'"denied"', b'"cancelled"')


class News:
    """One thing that members hear: an update, or a notification to those who announced that they want it."""

    __slots__ = ("_update", "beside", "but", "frame", "method", "only", "params", "raw", "seq", "wanted")

    def __init__(
        self,
        method: str,
        *,
        seq: int = 0,
        params: Any = None,
        update: Any = None,
        raw: bytes = b"",
        frame: bytes | None = None,
        beside: bytes = b"",
        wanted: str = "",
        but: str = "",
        only: str = "",
    ) -> None:
        self.method = method
        self.seq = seq
        self.params = params
        self.raw = raw
        self.frame = frame  # as official clients get it, where they all get the same
        self.beside = beside  # members of `_meta.dragoman` besides the number
        self.wanted = wanted  # heard only by those who announced this; "" is for all
        self.but = but  # the connection that said it itself
        self.only = only  # the one connection that it is for
        self._update = update

    @property
    def update(self) -> Any:
        """The update as its type; None when nobody can make sense of it."""
        if self._update is None and self.raw:
            self._update = typed(self.raw)
        return self._update


def stamp(seq: int, beside: bytes = b"") -> bytes:
    """The `_meta` by which a client knows how far it has heard."""
    return b',"_meta":{"dragoman":{"seq":%d%b}}' % (seq, beside)


def update_frame(session: bytes, update: bytes, seq: int, beside: bytes = b"") -> bytes:
    """An update as official clients get it; `session` is the id as JSON."""
    return b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":%b%b}}' % (
        session,
        update,
        stamp(seq, beside),
    )


def closed(session: str, why: str) -> News:
    """A session is not open any more to whoever hears this."""
    return News("_dragoman/closed", params={"sessionId": session, "reason": why}, wanted=PRESENCE)


def told(session: str, line: Line) -> list[News]:
    """What is heard of an entry when it happens."""
    tell = _TELLS.get(line.kind)
    return tell(session, line) if tell is not None else []


def retold(session: str, line: Line) -> list[News]:
    """What is heard of an entry by somebody who was not there: what was said, by everybody, and which turns failed."""
    is_failure = line.kind == EntryKind.TURN_ENDED and b'"error"' in bytes(line.body)
    if line.kind not in (EntryKind.UPDATE, EntryKind.PROMPT) and not is_failure:
        return []
    news = [one for one in told(session, line) if not one.only]
    for one in news:
        one.but = ""
    return news


# --- the table ---------------------------------------------------------------------------------------------------


def _update(session: str, line: Line) -> list[News]:
    raw = bytes(line.body)
    is_common = raw.startswith(_COMMON) and all(raw.find(word) < 0 for word in _ODD)
    frame = update_frame(encode(session), raw, line.seq) if is_common else None
    return [News(UPDATE, seq=line.seq, raw=raw, frame=frame)]


def _prompt(session: str, line: Line) -> list[News]:
    body = msgspec.json.decode(line.body)
    if not isinstance(body, dict):
        return []
    try:
        blocks = read(PromptParams, {"sessionId": "", "prompt": body.get("prompt")})[0].prompt
    except ProtocolError:
        return []
    beside = b',"user":%b' % encode(line.actor)
    news = []
    if sender := str(body.get("connection", "")):
        news.append(_note(session, line, "_dragoman/turn", TURNS, {"state": "yours", "turn": line.turn}))
        news[0].only = sender
    for block in blocks:
        raw = encode(UserMessageChunk(content=block))
        frame = update_frame(encode(session), raw, line.seq, beside) if raw.find(b'"_meta"') < 0 else None
        news.append(News(UPDATE, seq=line.seq, raw=raw, frame=frame, beside=beside, but=sender))
    return news


def _turn_started(session: str, line: Line) -> list[News]:
    return [_note(session, line, "_dragoman/turn", TURNS, {"state": "started", "turn": line.turn, "by": line.actor})]


def _turn_ended(session: str, line: Line) -> list[News]:
    body = msgspec.json.decode(line.body)
    return [_note(session, line, "_dragoman/turn", TURNS, {"state": "ended", "turn": line.turn, **body})]


def _decided(session: str, line: Line) -> list[News]:
    body = msgspec.json.decode(line.body)
    return [_note(session, line, "_dragoman/permission_resolved", PERMISSIONS, {**body, "by": line.actor})]


def _agent_exited(session: str, line: Line) -> list[News]:
    body = msgspec.json.decode(line.body)
    message = str(body.get("message", "it is gone"))
    notice = Notice(severity=NoticeSeverity.ERROR, title="The agent ended", description=f"{message}. {_RESTARTS}")
    return [
        _note(session, line, "_dragoman/agent", TURNS, {"state": "exited", **body}),
        News(UPDATE, seq=line.seq, raw=encode(notice), update=notice),
    ]


def _note(session: str, line: Line, method: str, wanted: str, body: dict[str, Any]) -> News:
    params = {"sessionId": session, **{name: value for name, value in body.items() if value is not None}}
    return News(method, seq=line.seq, params={**params, "seq": line.seq}, wanted=wanted)


_TELLS: dict[str, Callable[[str, Line], list[News]]] = {
    EntryKind.UPDATE: _update,
    EntryKind.PROMPT: _prompt,
    EntryKind.TURN_STARTED: _turn_started,
    EntryKind.TURN_ENDED: _turn_ended,
    EntryKind.DECIDED: _decided,
    EntryKind.AGENT_EXITED: _agent_exited,
}


_HEAD = b'{"jsonrpc":"2.0","method":"session/update","params":{'


_TAIL = b"}}"


class StampedOutbox(Outbox):
    """An outbox that puts the number of the entry that is being told into what it says of it."""

    __slots__ = ("seq",)

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.seq: int | None = None

    def write(self, frame: bytes) -> None:
        """Send a frame, stamped while an entry is being told."""
        if self.seq is not None and frame.startswith(_HEAD) and frame.endswith(_TAIL):
            frame = stamped(frame, self.seq)
        super().write(frame)


def stamped(frame: bytes, seq: int) -> bytes:
    """An update with its number put in, which stands last and first in its `_meta`: there clients look for it."""
    if b'"_meta"' not in frame:
        return frame[: -len(_TAIL)] + stamp(seq) + _TAIL
    said = msgspec.json.decode(frame)
    carried = said["params"].pop("_meta", None) or {}
    ours = {"seq": seq, **(carried.pop("dragoman", None) or {})}
    said["params"]["_meta"] = {"dragoman": ours, **carried}
    return msgspec.json.encode(said)
