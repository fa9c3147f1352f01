"""What members of a room are sent for each kind of log entry. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import msgspec
from msgspec import UNSET

from dragoman.dialect.side_data import DERIVED, OWN_TURN, with_side_data
from dragoman.engine.sender import Outbox
from dragoman.schema.base import encode
from dragoman.schema.methods import METHODS
from dragoman.schema.prompt import StopReason
from dragoman.schema.side import Side
from dragoman.schema.update import Notice, NoticeSeverity, SessionState, SessionStateUpdate, UserMessageChunk
from dragoman.store.contract import EntryKind, RawEntry
from dragoman.store.replay import decode_prompt, decode_update
from dragoman.transport.base import Transport

UPDATE = "session/update"

# Topics that a client can subscribe to under clientCapabilities._meta.dragoman.host.
PRESENCE, QUEUE, TURNS, PERMISSIONS, TERMINALS = "presence", "queue", "turns", "permissions", "terminals"
SESSIONS = "sessions"  # of the whole host, not of one room
TOPICS = (PRESENCE, QUEUE, TURNS, PERMISSIONS, TERMINALS, SESSIONS)

# Protocol notifications of an agent other than updates.
AUTH_STATUS_UPDATE = "auth/status_update"
CLIENT_NOTIFICATIONS = frozenset(
    row.name
    for row in METHODS.values()
    if row.side is Side.CLIENT and not row.request and row.host == "forwards" and row.name != UPDATE
)

# Updates that every client takes as they are. All others may need another form, or cannot be sent at all.
_PLAIN_UPDATES = (
    b'{"sessionUpdate":"agent_message_chunk"',
    b'{"sessionUpdate":"agent_thought_chunk"',
    b'{"sessionUpdate":"user_message_chunk"',
    b'{"sessionUpdate":"tool_call"',
    b'{"sessionUpdate":"tool_call_update"',
    b'{"sessionUpdate":"plan"',
)

# The code of a turn's error for clients that are told it with a state; the log has only its kind.
INTERNAL_ERROR_CODE = -32603

# How the frame of an update begins and ends.
_HEAD, _TAIL = b'{"jsonrpc":"2.0","method":"session/update","params":{', b"}}"

_RESTART_HINT = "The next prompt starts it again."

# An update that contains one of these, perhaps only in its text, may have another form in official v1 (dialect/v1), or
# for members that do not have the terminal.
_has_rewritten_member = re.compile(rb'"(?:_meta|awaiting_permission|denied|cancelled|paused|terminalId)"').search


class Notification(msgspec.Struct, eq=False):
    """One message to members: an update, or a notification for those who subscribed to its topic."""

    method: str
    seq: int = 0
    params: Any = None
    raw: bytes = b""  # the update
    frame: bytes | None = None  # the frame for official v1, if it is the same for all
    extra_meta: bytes = b""  # members of `_meta.dragoman` besides the number
    topic: str = ""  # sent only to those who subscribed; "" is for all
    except_client: str = ""  # the connection that it came from
    only_client: str = ""  # the only connection that gets it
    only_wide: bool = False  # only for clients of wide dialects
    decoded_update: Any = None
    make_update: Callable[[], Any] | None = None  # for what few members get

    @property
    def update(self) -> Any:
        """The update as its type; None if it cannot be decoded."""
        if self.decoded_update is None and self.make_update is not None:
            self.decoded_update = self.make_update()
        elif self.decoded_update is None and self.raw:
            self.decoded_update = decode_update(self.raw)
        return self.decoded_update


def seq_meta(seq: int, extra_meta: bytes = b"") -> bytes:
    """Return the `_meta` that tells a client the number of an entry."""
    return b',"_meta":{"dragoman":{"seq":%d%b}}' % (seq, extra_meta)


def update_head(session: str) -> bytes:
    """Return how the frames of a session's updates begin."""
    return _HEAD + b'"sessionId":%b,"update":' % encode(session)


def update_frame(head: bytes, update: bytes, seq: int, extra_meta: bytes = b"") -> bytes:
    """Return the frame of an update for official v1. `head` is how those of its session begin."""
    return head + update + seq_meta(seq, extra_meta) + _TAIL


def shared_frame(head: bytes, entry: RawEntry) -> bytes | None:
    """Return the frame that is all that is sent for an entry, the same for all of official v1; None if more is."""
    if entry.kind != EntryKind.UPDATE:
        return None
    raw = bytes(entry.body)
    if not raw.startswith(_PLAIN_UPDATES) or _has_rewritten_member(raw) is not None:
        return None
    return update_frame(head, raw, entry.seq)


def closed_notification(session: str, reason: str) -> Notification:
    """Return the notification that a session is closed for its receiver."""
    return Notification("_dragoman/closed", params={"sessionId": session, "reason": reason}, topic=PRESENCE)


def live_notifications(session: str, entry: RawEntry) -> list[Notification]:
    """Return what members are sent when an entry is committed."""
    render = _RENDERERS.get(entry.kind)
    return render(session, entry) if render is not None else []


def replay_notifications(session: str, entry: RawEntry) -> list[Notification]:
    """Return what a new member is sent for an old entry: messages of everybody, outputs of commands, failed turns."""
    if entry.kind == EntryKind.TERMINAL:
        return _render_output(session, entry)
    is_failure = entry.kind == EntryKind.TURN_ENDED and b'"error"' in bytes(entry.body)
    if entry.kind not in (EntryKind.UPDATE, EntryKind.PROMPT, EntryKind.TURN_ENDED):
        return []
    notifications = [
        notification
        for notification in live_notifications(session, entry)
        if not notification.only_client and (entry.kind != EntryKind.TURN_ENDED or is_failure or notification.only_wide)
    ]
    for notification in notifications:
        notification.except_client = ""
    return notifications


# --- rendering ---------------------------------------------------------------------------------------------------


def _render_update(session: str, entry: RawEntry) -> list[Notification]:
    frame = shared_frame(update_head(session), entry)
    return [Notification(UPDATE, seq=entry.seq, raw=bytes(entry.body), frame=frame)]


def _render_prompt(session: str, entry: RawEntry) -> list[Notification]:
    extra_meta = b',"user":%b' % encode(entry.actor)
    notifications = []
    value = entry.value
    own_turn = Notification(UPDATE, entry.seq, make_update=own_running_state, only_wide=True)
    if sender := str(value.get("connection", "")) if isinstance(value, dict) else "":
        notifications.append(_turn_notification(session, entry, {"state": "yours", "turn": entry.turn}))
        notifications.append(own_turn)
        notifications[0].only_client = own_turn.only_client = sender
    for block in decode_prompt(entry.body):
        raw = encode(UserMessageChunk(content=block))
        frame = update_frame(update_head(session), raw, entry.seq, extra_meta) if raw.find(b'"_meta"') < 0 else None
        notifications.append(
            Notification(UPDATE, seq=entry.seq, raw=raw, frame=frame, extra_meta=extra_meta, except_client=sender)
        )
    running = Notification(UPDATE, entry.seq, make_update=running_state, only_wide=True, except_client=sender)
    return [*notifications, running]


def running_state(**side_data: Any) -> SessionStateUpdate:
    """Return the state of a session with a turn, for clients that are told states."""
    state = SessionStateUpdate(state=SessionState.RUNNING)
    return cast(SessionStateUpdate, with_side_data(state, **{DERIVED: True}, **side_data))


def own_running_state() -> SessionStateUpdate:
    """Return the same, for the client whose prompt it is."""
    return running_state(**{OWN_TURN: True})


def _render_turn_started(session: str, entry: RawEntry) -> list[Notification]:
    return [_turn_notification(session, entry, {"state": "started", "turn": entry.turn, "by": entry.actor})]


def _render_turn_ended(session: str, entry: RawEntry) -> list[Notification]:
    body = entry.value
    ended = _turn_notification(session, entry, {"state": "ended", "turn": entry.turn, **body})
    return [ended, Notification(UPDATE, entry.seq, make_update=partial(_idle_state, body), only_wide=True)]


def _idle_state(body: Any) -> SessionStateUpdate:
    reason, error = body.get("stopReason"), body.get("error")
    idle = SessionStateUpdate(state=SessionState.IDLE, stop_reason=reason if isinstance(reason, str) else UNSET)
    if isinstance(error, dict) and not reason:
        idle.stop_reason = StopReason.ERROR
        idle.error = {"code": INTERNAL_ERROR_CODE, "message": str(error.get("message", ""))}
    return cast(SessionStateUpdate, with_side_data(idle, **{DERIVED: True}))


def _render_decision(session: str, entry: RawEntry) -> list[Notification]:
    body = {**entry.value, "by": entry.actor}
    return [_notification(session, entry, "_dragoman/permission_resolved", PERMISSIONS, body)]


def _render_agent_exit(session: str, entry: RawEntry) -> list[Notification]:
    body = entry.value
    message = str(body.get("message", "it is gone"))
    notice = Notice(severity=NoticeSeverity.ERROR, title="The agent exited", description=f"{message}. {_RESTART_HINT}")
    return [
        _notification(session, entry, "_dragoman/agent", TURNS, {"state": "exited", **body}),
        Notification(UPDATE, seq=entry.seq, raw=encode(notice), decoded_update=notice),
    ]


def _render_member(session: str, entry: RawEntry) -> list[Notification]:
    """Tell members that the working tree was made again elsewhere, or could not be saved."""
    body = entry.value if isinstance(entry.value, dict) else {}
    restored, checkpoint = body.get("restored"), body.get("checkpoint")
    if isinstance(restored, dict):
        title, text = "The session moved", str(restored.get("message", ""))
    elif isinstance(checkpoint, dict) and "failed" in checkpoint:
        title, text = "No checkpoint", str(checkpoint["failed"])
    else:
        return []
    notice = Notice(severity=NoticeSeverity.WARNING, title=title, description=text)
    return [Notification(UPDATE, seq=entry.seq, raw=encode(notice), decoded_update=notice)]


def _render_output(session: str, entry: RawEntry) -> list[Notification]:
    """Tell a new member the output of a command; the others were told when it was logged."""
    if b'"output"' not in bytes(entry.body):
        return []
    body = entry.value if isinstance(entry.value, dict) else {}
    params = {"sessionId": session, "terminalId": body.get("terminal_id"), "output": body.get("output")}
    if not all(isinstance(value, str) for value in params.values()):  # an imported log has what others wrote
        return []
    return [Notification("_dragoman/terminal", seq=entry.seq, params=params, topic=TERMINALS)]


def _turn_notification(session: str, entry: RawEntry, body: dict[str, Any]) -> Notification:
    return _notification(session, entry, "_dragoman/turn", TURNS, body)


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
    EntryKind.MEMBER: _render_member,
}


class NumberedOutbox(Outbox):
    """An outbox that adds the number of the current entry to its frames."""

    __slots__ = ("extra_meta", "seq")

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.seq: int | None = None
        self.extra_meta = b""

    def write(self, frame: bytes) -> None:
        """Send a frame, with the number of the entry if there is one."""
        if self.seq is not None and frame.startswith(_HEAD) and frame.endswith(_TAIL):
            frame = add_seq(frame, self.seq, self.extra_meta)
        super().write(frame)


def add_seq(frame: bytes, seq: int, extra_meta: bytes = b"") -> bytes:
    """Return the update with its number at the end, first in `_meta`, where clients look for it."""
    if b'"_meta"' not in frame:
        return frame[: -len(_TAIL)] + seq_meta(seq, extra_meta) + _TAIL
    message = msgspec.json.decode(frame)
    carried = message["params"].pop("_meta", None) or {}
    numbered = msgspec.json.decode(b'{"seq":%d%b}' % (seq, extra_meta))
    own_meta = {**numbered, **(carried.pop("dragoman", None) or {})}
    message["params"]["_meta"] = {"dragoman": own_meta, **carried}
    return msgspec.json.encode(message)
