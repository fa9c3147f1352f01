"""Tool calls that an agent changes member by member, for clients that know a start and updates. Per session, pure.

The first sight of an id is the start of the call. A removed member gets a neutral value. Contents that come one by one
are collected: a client gets whole lists only, so each is sent by `take_changed_content`, which the caller paces.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from dragoman.dialect.narrow.content import changed_paths, narrow_item
from dragoman.dialect.narrow.loss import Loss, LossReports
from dragoman.dialect.narrow.terminals import AgentTerminal, Terminals
from dragoman.schema.toolcall import AgentTerminalEmbed, ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolKind
from dragoman.schema.update import ToolCallContentChunk, ToolCallProgress, ToolCallStart

# Tool calls that are remembered in a session; of more, the oldest are forgotten.
MAX_CALLS: Final = 1000

_KINDS: Final = frozenset(
    {
        ToolKind.READ,
        ToolKind.EDIT,
        ToolKind.DELETE,
        ToolKind.MOVE,
        ToolKind.SEARCH,
        ToolKind.EXECUTE,
        ToolKind.THINK,
        ToolKind.FETCH,
        ToolKind.SWITCH_MODE,
        ToolKind.OTHER,
    }
)

# What all dialects have a word or a nearest word for.
_STATUSES: Final = frozenset(
    {
        ToolCallStatus.PENDING,
        ToolCallStatus.IN_PROGRESS,
        ToolCallStatus.COMPLETED,
        ToolCallStatus.FAILED,
        ToolCallStatus.AWAITING_PERMISSION,
        ToolCallStatus.DENIED,
        ToolCallStatus.CANCELLED,
    }
)

# Members that cannot be removed once a client has them.
_LASTING_MEMBERS: Final = frozenset({"name", "rawInput", "rawOutput"})


class KnownCall:
    """A tool call as the client has it, and contents that it does not have yet."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.title: str | None = None
        self.name: str | None = None
        self.status: str = ToolCallStatus.PENDING
        self.kind: Any = UNSET
        self.content: list[Any] = []  # in the client's form, except terminals of the agent
        self.paths: list[str] = []  # of files that its patches change
        self.locations: list[ToolCallLocation] | None = None  # that the agent named
        self.is_announced = False
        self.must_restore = False  # whether the client shows other content, of a question

    @property
    def heading(self) -> str:
        """The title, or what takes its place."""
        return self.title or self.name or self.id


class ToolCalls:
    """The tool calls of one session."""

    def __init__(self, terminals: Terminals, losses: LossReports) -> None:
        self._terminals = terminals
        self._losses = losses
        self._calls: dict[str, KnownCall] = {}
        self._changed: dict[str, KnownCall] = {}  # whose content the client does not have yet

    @property
    def has_changed_content(self) -> bool:
        """Whether the client lacks contents."""
        return bool(self._changed)

    def find(self, id: str) -> KnownCall | None:
        """Return a call that was named before."""
        return self._calls.get(id)

    def start(self, update: ToolCallStart) -> list[Any]:
        """Return a start as the client gets it; an id that is used again begins anew."""
        self._calls.pop(update.tool_call_id, None)
        self._changed.pop(update.tool_call_id, None)
        members = {name: getattr(update, name) for name in update.__struct_fields__}
        return self.change(ToolCallProgress(**members))

    def change(self, update: ToolCallUpdate) -> list[Any]:
        """Return a change as the client gets it."""
        call = self._get_or_add(update.tool_call_id)
        before = call.status
        shown = self._shown_in(call)
        members = self._apply(call, update)
        if "content" not in members and (call.must_restore or (call.id in self._changed and call.status != before)):
            members["content"] = call.content
        return self._tell(call, members, update.meta, shown)

    def add_content(self, update: ToolCallContentChunk) -> list[Any]:
        """Add one content; return the start of a call that is new, and nothing for others."""
        call = self._get_or_add(update.tool_call_id)
        shown = self._shown_in(call)
        self._add_items(call, [update.content])
        if not call.is_announced:
            return self._tell(call, {"content": call.content}, UNSET, shown)
        self._changed[call.id] = call
        if self._shown_in(call) != shown:  # a terminal that the client has to know before its output comes
            return self._tell(call, {"content": call.content}, UNSET, shown)
        return []

    def take_changed_content(self) -> list[Any]:
        """Return the contents that the client does not have yet."""
        return [each for call in list(self._changed.values()) for each in self._content_update(call)]

    def take_changed_terminals(self) -> list[Any]:
        """Return the output that the client does not have yet, in each tool call that shows it."""
        updates: list[Any] = []
        for terminal in list(self._terminals.changed.values()):
            if self._terminals.changed.pop(terminal.id, None) is not None:  # it may have come with another one
                updates += self._shown_output(terminal) or self._terminals.own_call(terminal)
        return updates

    def take_ended_terminals(self) -> list[Any]:
        """Return the output of terminals whose command has ended, if a tool call shows them."""
        updates: list[Any] = []
        for terminal in list(self._terminals.changed.values()):
            if terminal.exit_status is not None and terminal.shown_in and terminal.id in self._terminals.changed:
                del self._terminals.changed[terminal.id]
                updates += self._shown_output(terminal)
        return updates

    def _shown_output(self, terminal: AgentTerminal) -> list[Any]:
        """Return the contents of the calls that show a terminal."""
        calls = [call for id in terminal.shown_in if (call := self._calls.get(id)) is not None]
        return [each for call in calls for each in self._content_update(call)]

    def narrow_subject(self, call: ToolCallUpdate) -> tuple[list[Any], ToolCallUpdate]:
        """Apply the tool call of a question; return the start of a new one, and the call for the question."""
        known = self._get_or_add(call.tool_call_id)
        shown = self._shown_in(known)
        members = self._apply(known, call)
        if known.id in self._changed or known.must_restore:
            members["content"] = known.content
        before: list[Any] = []
        if not known.is_announced or self._shown_in(known) != shown:
            before = self._tell(known, dict(members), UNSET, shown)
        self._complete_content(known, members)
        return before, ToolCallUpdate(tool_call_id=known.id, meta=call.meta, **members)

    def rendered_content(self, id: str) -> list[Any]:
        """Return the contents of a call as the client gets them."""
        call = self._calls.get(id)
        return [] if call is None else self._rendered(call)

    # --- members ----------------------------------------------------------------------------------------------

    def _apply(self, call: KnownCall, update: ToolCallUpdate) -> dict[str, Any]:
        """Note the members of a change; return those that the client gets."""
        cleared = frozenset(update.clear or ())
        members: dict[str, Any] = {}
        if update.name:
            call.name = members["name"] = update.name
        if update.title or "title" in cleared or (update.name and call.title is None):
            call.title = update.title or (None if "title" in cleared else call.title)
            members["title"] = call.heading
        if update.kind or "kind" in cleared:
            call.kind = members["kind"] = self._kind(update.kind or ToolKind.OTHER)
        if update.status or "status" in cleared:
            call.status = members["status"] = self._status(update.status or ToolCallStatus.PENDING)
        if isinstance(update.content, list) or "content" in cleared:
            call.content, call.paths = [], []
            self._add_items(call, update.content or [])
            members["content"] = call.content
        if isinstance(update.locations, list) or "locations" in cleared:
            call.locations = members["locations"] = update.locations or []
        for name in ("raw_input", "raw_output"):
            value = getattr(update, name)
            if value is not UNSET and value is not None:
                members[name] = value
        if cleared & _LASTING_MEMBERS:
            self._losses.add(Loss.CLEARED_MEMBER)
            call.name = None if "name" in cleared and not update.name else call.name
        if update.capabilities and update.capabilities.cancel is not UNSET:
            self._losses.add(Loss.CANCEL_TOOL_CALL)
        return members

    def _kind(self, kind: str) -> str:
        if kind in _KINDS:
            return kind
        self._losses.add(Loss.TOOL_KIND, kind)
        return ToolKind.OTHER

    def _status(self, status: str) -> str:
        if status in _STATUSES:
            return status
        if status == ToolCallStatus.PAUSED:
            self._losses.add(Loss.PAUSED)
        else:
            self._losses.add(Loss.TOOL_STATUS, status)
        return ToolCallStatus.IN_PROGRESS

    def _add_items(self, call: KnownCall, content: list[Any]) -> None:
        for item in content:
            call.content += narrow_item(item, self._losses)
        call.paths += [path for path in changed_paths(content) if path not in call.paths]

    def _get_or_add(self, id: str) -> KnownCall:
        call = self._calls.get(id)
        if call is None:
            call = self._calls[id] = KnownCall(id)
            if len(self._calls) > MAX_CALLS:
                self._changed.pop(oldest := next(iter(self._calls)), None)
                del self._calls[oldest]
        return call

    # --- what the client gets -----------------------------------------------------------------------------------

    def _tell(self, call: KnownCall, members: dict[str, Any], meta: Any, shown: list[str]) -> list[Any]:
        """Return the start or the change of a call; `shown` are the terminals that it showed before."""
        self._complete_content(call, members)
        follows: list[Any] = []
        infos: list[dict[str, Any]] = []
        for id in self._show_terminals(call, shown):
            terminal = self._terminals.get_or_add(id)
            follows += self._terminals.end_own_call(terminal)
            info = self._terminals.carrier_meta(terminal, call.id)
            if info:
                infos.append(info)
                follows += self._terminals.output_so_far(terminal)
        meta = meta or UNSET
        if call.is_announced and not infos:
            has_news = bool(members) or meta is not UNSET
            update = ToolCallProgress(tool_call_id=call.id, meta=meta, **members)
            return [update, *follows] if has_news else follows
        starts = [self._start(call, members, meta)] if not infos else []
        unknown = [info["terminal_info"]["terminal_id"] for info in infos]
        for info in infos:  # each start names one terminal, and shows only those that the client knows then
            unknown.pop(0)
            known = [item for item in members["content"] if getattr(item, "terminal_id", None) not in unknown]
            starts.append(self._start(call, {**members, "content": known}, {**(meta or {}), **info}))
        return [*starts, *follows]

    def _start(self, call: KnownCall, members: dict[str, Any], meta: Any) -> ToolCallStart:
        """Return the start of a call; it comes again for a terminal, which clients make only at a start."""
        if call.is_announced:
            known = {"name": call.name or UNSET, "kind": call.kind, "status": call.status}
            members = {**known, "locations": call.locations or UNSET, "content": self._rendered(call), **members}
        call.is_announced = True
        return ToolCallStart(tool_call_id=call.id, meta=meta, **{**members, "title": call.heading})

    def _complete_content(self, call: KnownCall, members: dict[str, Any]) -> None:
        """Put the contents of a call in its members, if they are among them; the client has them from then on."""
        if "content" not in members:
            return
        members["content"] = self._rendered(call)
        if call.locations is None and call.paths:
            members["locations"] = [ToolCallLocation(path=path) for path in call.paths]
        self._changed.pop(call.id, None)
        call.must_restore = False
        for id in self._shown_in(call):
            if self._terminals.get_or_add(id).shown_in in ([], [call.id]):
                self._terminals.changed.pop(id, None)

    def _rendered(self, call: KnownCall) -> list[Any]:
        return [
            self._terminals.item(item.terminal_id) if type(item) is AgentTerminalEmbed else item
            for item in call.content
        ]

    def _content_update(self, call: KnownCall) -> list[Any]:
        return self._tell(call, {"content": call.content}, UNSET, self._shown_in(call))

    @staticmethod
    def _shown_in(call: KnownCall) -> list[str]:
        """Return the agent's terminals that a call shows."""
        return [item.terminal_id for item in call.content if type(item) is AgentTerminalEmbed]

    def _show_terminals(self, call: KnownCall, before: list[str]) -> list[str]:
        """Note which terminals a call shows; return those that it did not show before."""
        now = self._shown_in(call)
        for id in before:
            if id not in now:
                terminal = self._terminals.get_or_add(id)
                terminal.shown_in = [each for each in terminal.shown_in if each != call.id]
        new = [id for id in dict.fromkeys(now) if call.id not in self._terminals.get_or_add(id).shown_in]
        for id in new:
            self._terminals.get_or_add(id).shown_in.append(call.id)
        return new
