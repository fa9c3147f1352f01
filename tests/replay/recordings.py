"""Recordings of real peers, and what each of them tells a client, read from the raw JSON alone.

A recording is one connection: frames in order, from client to agent (`c2a`) and back (`a2c`). `told` is a fold over
the raw frames that knows nothing of our code: the text of each turn, the updates in and between turns, the last state
of each tool call and how each turn ended. The replays are held against it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

FOLDER = Path(__file__).parents[1] / "data" / "recordings"

FINAL = {"completed", "failed", "cancelled"}
MEMBERS = {
    "title": "",
    "name": "",
    "kind": "other",
    "status": "pending",
    "content": (),
    "locations": (),
    "rawInput": None,
    "rawOutput": None,
}


class Step(NamedTuple):
    """One frame of a recording: who sent it, and what; `raw` is a line that was no message."""

    way: str
    message: dict[str, Any]
    raw: str = ""

    @property
    def method(self) -> str:
        """The method of a call, nothing for an answer."""
        return str(self.message.get("method", ""))

    @property
    def id(self) -> Any:
        """The id of a request or an answer, None for a notification."""
        return self.message.get("id")

    @property
    def params(self) -> dict[str, Any]:
        """The params of a call."""
        params = self.message.get("params", {})
        assert isinstance(params, dict)
        return params

    @property
    def session(self) -> str:
        """The session a call is about."""
        return str(self.params.get("sessionId", ""))

    @property
    def is_answer(self) -> bool:
        """Whether it answers a request (an error without id answers nothing)."""
        return not self.method and "id" in self.message


def names() -> list[str]:
    """All recordings."""
    return sorted(path.stem for path in FOLDER.glob("*.ndjson"))


def load(name: str) -> list[Step]:
    """The frames of a recording; notes and log lines are for people."""
    rows = [msgspec.json.decode(line) for line in (FOLDER / f"{name}.ndjson").read_bytes().splitlines()]
    return [Step(row["dir"], row.get("msg", {}), row.get("raw", "")) for row in rows if row["dir"] in ("c2a", "a2c")]


@dataclass
class TurnMessages:
    """One turn: its updates and how it ended (None: it never did)."""

    updates: list[dict[str, Any]] = field(default_factory=list)
    ended: str | int | None = None
    cancelled: bool = False

    @property
    def text(self) -> str:
        """What the agent said in it."""
        return text_of(self.updates)


@dataclass
class SessionMessages:
    """One session, from its opening: what was said in turns and between them, and its tool calls."""

    id: str
    between: list[dict[str, Any]] = field(default_factory=list)
    turns: list[TurnMessages] = field(default_factory=list)
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    running: Any = None

    def take(self, update: dict[str, Any]) -> None:
        """One update, in the turn that runs or between turns."""
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            self.merge(update, starts=update["sessionUpdate"] == "tool_call")
        (self.between if self.running is None else self.turns[-1].updates).append(update)

    def merge(self, patch: dict[str, Any], starts: bool = False) -> None:
        """What is absent or null stays; a call that begins again after its end is another call."""
        call = self.calls.get(patch["toolCallId"])
        if call is None or (starts and call["status"] in FINAL):
            call = self.calls[patch["toolCallId"]] = dict(MEMBERS)
        call.update({name: patch[name] for name in MEMBERS if patch.get(name) is not None})

    def cancel(self) -> None:
        """The client cancels: what has not ended counts as cancelled, unless the agent says more of it."""
        if self.running is not None:
            self.turns[-1].cancelled = True
            for call in self.calls.values():
                if call["status"] not in FINAL:
                    call["status"] = "cancelled"


@dataclass
class AgentMessages:
    """Everything that a recorded agent sent to its client."""

    sessions: list[SessionMessages] = field(default_factory=list)
    open: dict[str, SessionMessages] = field(default_factory=dict)
    strays: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # of sessions the client has not open
    asides: dict[Any, Any] = field(default_factory=dict)  # prompts beside a running turn, or to nobody: how they ended
    updates: int = 0

    def enter(self, session: str) -> None:
        """The client knows this session from now on."""
        self.open[session] = opened = SessionMessages(session)
        self.sessions.append(opened)
        for update in self.strays.pop(session, ()):
            opened.take(update)


def agent_messages(steps: list[Step]) -> AgentMessages:
    """What the agent of a recording sent to its client."""
    tale = AgentMessages()
    requests: dict[Any, Step] = {}
    replaced: dict[Any, SessionMessages | None] = {}
    for step in steps:
        if step.way == "c2a" and step.method:
            requests.setdefault(step.id, step) if step.id is None else requests.update({step.id: step})
            if step.method in ("session/load", "session/resume"):
                replaced[step.id] = tale.open.get(step.session)
                tale.enter(step.session)
            elif step.method == "session/cancel" and step.session in tale.open:
                tale.open[step.session].cancel()
            elif step.method == "session/prompt":
                _begin(tale, step)
        elif step.way == "a2c" and step.method == "session/update":
            tale.updates += 1
            update = step.params["update"]
            if step.session in tale.open:
                tale.open[step.session].take(update)
            else:
                tale.strays.setdefault(step.session, []).append(update)
        elif step.way == "a2c" and step.method == "session/request_permission" and step.session in tale.open:
            tale.open[step.session].merge(step.params["toolCall"])
        elif step.way == "a2c" and step.is_answer:
            _answer(tale, requests.pop(step.id), step, replaced)
    return tale


def _begin(tale: AgentMessages, step: Step) -> None:
    session = tale.open.get(step.session)
    if session is None or session.running is not None:
        tale.asides[step.id] = None
    else:
        session.running = step.id
        session.turns.append(TurnMessages())


def _answer(tale: AgentMessages, asked: Step, step: Step, replaced: dict[Any, SessionMessages | None]) -> None:
    failed = "error" in step.message
    if asked.method in ("session/new", "session/fork") and not failed:
        tale.enter(step.message["result"]["sessionId"])
    elif asked.method in ("session/load", "session/resume") and failed:
        before = replaced[asked.id]
        del tale.open[asked.session]
        tale.sessions.pop()
        if before is not None:
            tale.open[asked.session] = before
    elif asked.method in ("session/close", "session/delete") and not failed:
        tale.open.pop(asked.session, None)
    elif asked.method == "session/prompt":
        _end(tale, asked, step)


def _end(tale: AgentMessages, asked: Step, step: Step) -> None:
    ended = step.message["error"]["code"] if "error" in step.message else step.message["result"].get("stopReason")
    for session in tale.sessions:
        if session.running == asked.id and asked.id is not None:
            turn = session.turns[-1]
            session.running = None
            turn.ended = "cancelled" if turn.cancelled and isinstance(ended, int) else ended
            return
    tale.asides[asked.id] = ended


def text_of(updates: list[dict[str, Any]], kind: str = "agent_message_chunk") -> str:
    """The text of all chunks of a kind."""
    return "".join(
        update["content"]["text"]
        for update in updates
        if update["sessionUpdate"] == kind and update["content"]["type"] == "text"
    )


def digest(entry: dict[str, Any]) -> tuple[Any, ...]:
    """What matters of one piece of a tool call's content, or of one of its places."""
    block = entry.get("content") or {}
    return (
        entry.get("type"),
        block.get("type"),
        block.get("text"),
        entry.get("path"),
        entry.get("line"),
        entry.get("oldText"),
        entry.get("newText"),
        entry.get("terminalId"),
    )
