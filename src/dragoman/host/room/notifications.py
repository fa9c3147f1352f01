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
from dragoman.schema.lenient import read_leniently
from dragoman.schema.prompt import PromptParams
from dragoman.schema.update import Notice, NoticeSeverity, UserMessageChunk
from dragoman.store.contract import EntryKind, RawEntry
from dragoman.store.replay import decode_update
from dragoman.transport.base import Transport

UPDATE = "session/update"

# What a client can announce that it wants to hear of, under clientCapabilities._meta.dragoman.host.
PRESENCE, QUEUE, TURNS, PERMISSIONS, TERMINALS = "presence", "queue", "turns", "permissions", "terminals"
TOPICS = (PRESENCE, QUEUE, TURNS, PERMISSIONS, TERMINALS)

# What an agent tells its client besides updates, in words of the protocol: about a link, and about who is logged in.
ELICITATION_COMPLETE, AUTH_STATUS_UPDATE = "elicitation/complete", "auth/status_update"
CLIENT_NOTIFICATIONS = (ELICITATION_COMPLETE, AUTH_STATUS_UPDATE)

# Kinds of updates that every client takes as they are: all others may have to be said otherwise, or not at all.
_PLAIN_UPDATES = (
    b'{"sessionUpdate":"agent_message_chunk"',
    b'{"sessionUpdate":"agent_thought_chunk"',
    b'{"sessionUpdate":"user_message_chunk"',
    b'{"sessionUpdate":"tool_call"',
    b'{"sessionUpdate":"tool_call_update"',
    b'{"sessionUpdate":"plan"',
)

_RESTART_HINT = "The next prompt starts it again."

# Where one of these stands in an update, perhaps only in its text, official v1 may say it otherwise (dialect/v1).
_REWRITTEN_MEMBERS = (b'"_meta"', b'"awaiting_permission"', b'"denied"', b'"cancelled"')


class Notification:
    """One thing that members hear: an update, or a notification to those who announced that they want it."""

    __slots__ = (
        "_update",
        "except_client",
        "extra_meta",
        "frame",
        "method",
        "only_client",
        "params",
        "raw",
        "seq",
        "topic",
    )

    def __init__(
        self,
        method: str,
        *,
        seq: int = 0,
        params: Any = None,
        update: Any = None,
        raw: bytes = b"",
        frame: bytes | None = None,
        extra_meta: bytes = b"",
        topic: str = "",
        except_client: str = "",
        only_client: str = "",
    ) -> None:
        self.method = method
        self.seq = seq
        self.params = params
        self.raw = raw
        self.frame = frame  # as official clients get it, where they all get the same
        self.extra_meta = extra_meta  # members of `_meta.dragoman` besides the number
        self.topic = topic  # heard only by those who announced this; "" is for all
        self.except_client = except_client  # the connection that said it itself
        self.only_client = only_client  # the one connection that it is for
        self._update = update

    @property
    def update(self) -> Any:
        """The update as its type; None when nobody can make sense of it."""
        if self._update is None and self.raw:
            self._update = decode_update(self.raw)
        return self._update


def seq_meta(seq: int, extra_meta: bytes = b"") -> bytes:
    """The `_meta` by which a client knows how far it has heard."""
    return b',"_meta":{"dragoman":{"seq":%d%b}}' % (seq, extra_meta)


def update_frame(session: bytes, update: bytes, seq: int, extra_meta: bytes = b"") -> bytes:
    """An update as official clients get it; `session` is the id as JSON."""
    return b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":%b%b}}' % (
        session,
        update,
        seq_meta(seq, extra_meta),
    )


def closed_notification(session: str, why: str) -> Notification:
    """A session is not open any more to whoever hears this."""
    return Notification("_dragoman/closed", params={"sessionId": session, "reason": why}, topic=PRESENCE)


def live_notifications(session: str, entry: RawEntry) -> list[Notification]:
    """What is heard of an entry when it happens."""
    tell = _RENDERERS.get(entry.kind)
    return tell(session, entry) if tell is not None else []


def replay_notifications(session: str, entry: RawEntry) -> list[Notification]:
    """What is heard of an entry by somebody who was not there: what was said, by everybody, and which turns failed."""
    is_failure = entry.kind == EntryKind.TURN_ENDED and b'"error"' in bytes(entry.body)
    if entry.kind not in (EntryKind.UPDATE, EntryKind.PROMPT) and not is_failure:
        return []
    news = [one for one in live_notifications(session, entry) if not one.only_client]
    for one in news:
        one.except_client = ""
    return news


# --- the table ---------------------------------------------------------------------------------------------------


def _render_update(session: str, entry: RawEntry) -> list[Notification]:
    raw = bytes(entry.body)
    is_common = raw.startswith(_PLAIN_UPDATES) and all(raw.find(word) < 0 for word in _REWRITTEN_MEMBERS)
    frame = update_frame(encode(session), raw, entry.seq) if is_common else None
    return [Notification(UPDATE, seq=entry.seq, raw=raw, frame=frame)]


def _render_prompt(session: str, entry: RawEntry) -> list[Notification]:
    body = msgspec.json.decode(entry.body)
    if not isinstance(body, dict):
        return []
    try:
        blocks = read_leniently(PromptParams, {"sessionId": "", "prompt": body.get("prompt")})[0].prompt
    except ProtocolError:
        return []
    beside = b',"user":%b' % encode(entry.actor)
    news = []
    if sender := str(body.get("connection", "")):
        news.append(_notification(session, entry, "_dragoman/turn", TURNS, {"state": "yours", "turn": entry.turn}))
        news[0].only_client = sender
    for block in blocks:
        raw = encode(UserMessageChunk(content=block))
        frame = update_frame(encode(session), raw, entry.seq, beside) if raw.find(b'"_meta"') < 0 else None
        news.append(Notification(UPDATE, seq=entry.seq, raw=raw, frame=frame, extra_meta=beside, except_client=sender))
    return news


def _render_turn_started(session: str, entry: RawEntry) -> list[Notification]:
    return [
        _notification(
            session, entry, "_dragoman/turn", TURNS, {"state": "started", "turn": entry.turn, "by": entry.actor}
        )
    ]


def _render_turn_ended(session: str, entry: RawEntry) -> list[Notification]:
    body = msgspec.json.decode(entry.body)
    return [_notification(session, entry, "_dragoman/turn", TURNS, {"state": "ended", "turn": entry.turn, **body})]


def _render_decision(session: str, entry: RawEntry) -> list[Notification]:
    body = msgspec.json.decode(entry.body)
    return [_notification(session, entry, "_dragoman/permission_resolved", PERMISSIONS, {**body, "by": entry.actor})]


def _render_agent_exit(session: str, entry: RawEntry) -> list[Notification]:
    body = msgspec.json.decode(entry.body)
    message = str(body.get("message", "it is gone"))
    notice = Notice(severity=NoticeSeverity.ERROR, title="The agent ended", description=f"{message}. {_RESTART_HINT}")
    return [
        _notification(session, entry, "_dragoman/agent", TURNS, {"state": "exited", **body}),
        Notification(UPDATE, seq=entry.seq, raw=encode(notice), update=notice),
    ]


def _notification(session: str, entry: RawEntry, method: str, topic: str, body: dict[str, Any]) -> Notification:
    params = {"sessionId": session, **{name: value for name, value in body.items() if value is not None}}
    return Notification(method, seq=entry.seq, params={**params, "seq": entry.seq}, topic=topic)


_RENDERERS: dict[str, Callable[[str, RawEntry], list[Notification]]] = {
    EntryKind.UPDATE: _render_update,
    EntryKind.PROMPT: _render_prompt,
    EntryKind.TURN_STARTED: _render_turn_started,
    EntryKind.TURN_ENDED: _render_turn_ended,
    EntryKind.DECIDED: _render_decision,
    EntryKind.AGENT_EXITED: _render_agent_exit,
}


_HEAD = b'{"jsonrpc":"2.0","method":"session/update","params":{'


_TAIL = b"}}"


class NumberedOutbox(Outbox):
    """An outbox that puts the number of the entry that is being told into what it says of it."""

    __slots__ = ("seq",)

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.seq: int | None = None

    def write(self, frame: bytes) -> None:
        """Send a frame, stamped while an entry is being told."""
        if self.seq is not None and frame.startswith(_HEAD) and frame.endswith(_TAIL):
            frame = add_seq(frame, self.seq)
        super().write(frame)


def add_seq(frame: bytes, seq: int) -> bytes:
    """An update with its number put in, which stands last and first in its `_meta`: there clients look for it."""
    if b'"_meta"' not in frame:
        return frame[: -len(_TAIL)] + seq_meta(seq) + _TAIL
    said = msgspec.json.decode(frame)
    carried = said["params"].pop("_meta", None) or {}
    ours = {"seq": seq, **(carried.pop("dragoman", None) or {})}
    said["params"]["_meta"] = {"dragoman": ours, **carried}
    return msgspec.json.encode(said)
