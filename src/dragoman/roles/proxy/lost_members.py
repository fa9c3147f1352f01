"""Report, once, each member that a dialect cannot carry of what is relayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.dialect.dialects import Dialect
from dragoman.dialect.losses import losses, message_shape, result_losses, without_empty
from dragoman.schema.side import Side

# Shapes of messages whose losses were looked for; of more, all are looked at again. No two peers use as many.
MAX_SHAPES = 10_000

_RESULT = " result"
FindLosses = Callable[[Dialect, Side, str, Any], list[str]]

# Members that every dialect but v1 leaves to its emulator; they are not lost.
_EXPECTED = frozenset({"sessionId", "protocolVersion", "cwd", "mcpServers"})

# Members with another form in a dialect (a command line, a text, a boolean), or handled by the emulator.
_EMULATED: dict[str, frozenset[str]] = {
    "fs/read_text_file": frozenset({"line", "limit"}),
    "terminal/create": frozenset({"command", "args", "args[]", "env", "outputByteLimit"}),
    "session/request_permission": frozenset({"options[]", "options[].kind", "toolCall.rawInput", "toolCall.status"}),
    "session/request_permission result": frozenset({"outcome.outcome", "outcome.optionId"}),
    "session/set_config_option result": frozenset({"configOptions", "configOptions[]"}),
    "terminal/wait_for_exit result": frozenset({"exitCode"}),
}


class LostMembers:
    """What the two ends of a relay do not get of each other; `report_once` gets each loss."""

    def __init__(self, report_once: Callable[[str], None]) -> None:
        self._report_once = report_once
        self._seen_shapes: set[int] = set()

    def report_call(self, receiver: Side, method: str, params: Any, dialect: Dialect) -> None:
        """Report what a receiver of this dialect does not get of a call."""
        self._report(receiver, method, params, dialect, losses, "")

    def report_result(self, receiver: Side, method: str, result: Any, dialect: Dialect) -> None:
        """Report what the caller of `receiver`, which has this dialect, does not get of a result."""
        self._report(receiver, method, result, dialect, result_losses, _RESULT)

    def _report(
        self, receiver: Side, method: str, source: Any, dialect: Dialect, find: FindLosses, suffix: str
    ) -> None:
        """Report losses; look only at new shapes of messages."""
        if not isinstance(source, dict):
            return
        shape = hash((receiver, method, suffix, message_shape(source)))
        if shape in self._seen_shapes:
            return
        if len(self._seen_shapes) >= MAX_SHAPES:
            self._seen_shapes.clear()
        self._seen_shapes.add(shape)
        update = source.get("update")
        kind = f" ({update.get('sessionUpdate')})" if isinstance(update, dict) else suffix
        key = method + suffix
        expected = _EXPECTED | _EMULATED.get(key, frozenset()) | dialect.emulated_members.get(key, frozenset())
        for path in find(dialect, receiver, method, source):
            if path not in expected and path != method:  # a whole message is reported when it is not forwarded
                self._report_once(f"{method}{kind}: {dialect.name} cannot carry {path}")


def initialize_losses(agent: Dialect, params: Any, client: Dialect, result: Any) -> list[str]:
    """Return one line for each side about what it does not learn of the other one."""
    lines = []
    for dialect, find, source in ((agent, losses, params), (client, result_losses, result)):
        lost = without_empty(find(dialect, Side.AGENT, "initialize", source), source)
        if lost := [path for path in lost if path not in _EXPECTED]:
            lines.append(f"initialize: {dialect.name} cannot carry {', '.join(lost)}")
    return lines
