"""Terminals in the tool calls of a room: a member that does not have a terminal is shown its output as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.host.room.notifications import TERMINALS, UPDATE, Notification
from dragoman.roles.client.workspace import MAX_SHOWN_TERMINALS
from dragoman.schema.content import TextContent
from dragoman.schema.toolcall import TerminalEmbed, ToolCallBlock
from dragoman.schema.update import ToolCallProgress, UpdateParams
from dragoman.store.contract import EntryKind
from dragoman.workspace.terminals import is_own_id

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient
    from dragoman.host.room.room import Room
    from dragoman.workspace.terminal import Terminal

# The end of a command's output that members are sent, and that the log has (characters).
MAX_OUTPUT = 32_000


# Shown instead of a terminal that no process has any more, such as after a restart of the host.
OUTPUT_GONE = "[the output of this command is no longer available]"


class ClientTerminal(msgspec.Struct):
    """A terminal of a client: whose it is, its id there, and what is known of its output."""

    owner: str  # the connection
    id: str
    output: str = ""


class ShownTerminals:
    """The terminals that the agent of a room created, by the agent's ids."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._client_terminals: dict[str, ClientTerminal] = {}
        # Characters of a command's output that members were sent, and whether they were told its end.
        self._sent: dict[str, tuple[int, bool]] = {}
        self.find_host_terminal: Callable[[str], Terminal | None] = lambda _: None

    def add(self, id: str, terminal: ClientTerminal) -> None:
        """Remember a terminal that a client created, also for some time after its release."""
        self._client_terminals[id] = terminal
        if len(self._client_terminals) > MAX_SHOWN_TERMINALS:
            del self._client_terminals[next(iter(self._client_terminals))]
        for listener in self._room.members.listeners:
            listener.on_terminal(id, terminal)

    def known(self) -> dict[str, Any]:
        """Return the terminals of clients as JSON, by id, for another node."""
        return {id: msgspec.to_builtins(terminal) for id, terminal in self._client_terminals.items()}

    def for_client(self, client: HostClient, update: Any) -> Any:
        """Return an update, or the tool call of a question, with the terminals that this client can show."""
        if not shows_terminal(update):
            return update
        content = [shown for block in update.content for shown in self._blocks_for(client, block)]
        return msgspec.structs.replace(update, content=content)

    def _blocks_for(self, client: HostClient, block: Any) -> Iterator[Any]:
        """Yield the terminal for its owner, its output for others; a terminal that the agent made up as it is.

        Of a terminal of ours that is gone, nobody can show anything, so clients are told that.
        """
        id = block.terminal_id if isinstance(block, TerminalEmbed) else ""
        known = self._client_terminals.get(id)
        output = self.output(id) if TERMINALS not in client.topics else None
        if known is not None and known.owner == client.id:
            yield msgspec.structs.replace(block, terminal_id=known.id)
        elif output is None and is_own_id(id) and TERMINALS not in client.topics:
            yield ToolCallBlock(content=TextContent(text=OUTPUT_GONE))
        elif output is None:
            yield block
        elif output:
            yield ToolCallBlock(content=TextContent(text=output[-MAX_OUTPUT:]))

    def output(self, id: str) -> str | None:
        """Return what a terminal has written, as far as it is known; None if there is no such terminal any more."""
        if (known := self._client_terminals.get(id)) is not None:
            return known.output
        terminal = self.find_host_terminal(id)
        return None if terminal is None else terminal.output().text

    def broadcast_output(self, id: str, end: dict[str, Any] | None = None) -> None:
        """Log the output of a command, once, and send it to all but its owner: as text in the tool calls that show it.

        `end` has its exitCode or signal, once they are known.
        """
        text = self.output(id) or ""
        length, is_ended = self._sent.get(id, (0, False))
        if length == len(text) and (is_ended or end is None):
            return
        self._sent[id] = len(text), is_ended or end is not None
        if length != len(text) or not text:
            logged = {"method": "terminal/output", "terminal_id": id, "output": text[-MAX_OUTPUT:]}
            self._room.log.append(EntryKind.TERMINAL, logged)
        known, session = self._client_terminals.get(id), self._room.agent.session
        owner = known.owner if known is not None else ""
        params = {"sessionId": self._room.id, "terminalId": id, "output": text[-MAX_OUTPUT:], **(end or {})}
        self._room.members.broadcast(
            Notification("_dragoman/terminal", params=params, topic=TERMINALS, except_client=owner)
        )
        if not text:
            return
        calls = list(session.tool_calls.values()) if session is not None else []
        for call in calls:
            if not any(isinstance(block, TerminalEmbed) and block.terminal_id == id for block in call.content):
                continue
            update = ToolCallProgress(tool_call_id=call.tool_call_id, content=call.content)
            for member in self._room.members.values():
                if member.is_live and member.client.id != owner and TERMINALS not in member.client.topics:
                    member_update = self.for_client(member.client, update)
                    member.client.connection.notify(
                        UPDATE, UpdateParams(session_id=self._room.id, update=member_update)
                    )

    def forget_sent(self, id: str) -> None:
        """Forget what was sent of a terminal that is released."""
        self._sent.pop(id, None)


def shows_terminal(update: Any) -> bool:
    """Tell whether a tool call, or a change of one, shows a terminal."""
    content = getattr(update, "content", None)
    return isinstance(content, list) and any(isinstance(block, TerminalEmbed) for block in content)
