"""Files and terminals of the draft: calls without a session, line ranges by first and last line, larger results.

Takes and gives one JSON object each. The emulator knows the session of a call.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.blocks import lift_pairs, lower_pairs
from dragoman.dialect.draft.tables import NO_EXIT_CODE, SIGNAL_NUMBERS
from dragoman.dialect.mapping import ConversionPair, ObjectMapping
from dragoman.dialect.reshape import Json, Object

_INFERRED_SESSION: Final = {"sessionId": ""}

READ: Final = ObjectMapping(
    renames={"startLine": "line"}, side_data=("encoding",), inferred=_INFERRED_SESSION, unsupported=("sessionId",)
)
READ_RESULT: Final = ObjectMapping(side_data=("encoding", "totalLines", "truncated"), defaults={"encoding": "utf-8"})
WRITE: Final = ObjectMapping(
    side_data=("encoding", "createDirectories", "overwrite"), inferred=_INFERRED_SESSION, unsupported=("sessionId",)
)
WRITE_RESULT: Final = ObjectMapping(side_data=("bytesWritten", "created"))
# Section 10.2 has interactive terminals but no way to request one: `interactive`, `rows` and `columns` are ours.
CREATE: Final = ObjectMapping(
    side_data=("timeout", "interactive", "rows", "columns"),
    inferred=_INFERRED_SESSION,
    unsupported=("sessionId", "outputByteLimit"),
)
CREATE_RESULT: Final = ObjectMapping(side_data=("pid",))
PUSH: Final = ObjectMapping(inferred=_INFERRED_SESSION, unsupported=("sessionId",))
POLL: Final = ObjectMapping(inferred=_INFERRED_SESSION)  # v1's own call: a given session stays
WAIT: Final = ObjectMapping(side_data=("timeout",), inferred=_INFERRED_SESSION, unsupported=("sessionId",))
WAIT_RESULT: Final = ObjectMapping(side_data=("timedOut",))
KILL: Final = ObjectMapping(side_data=("signal", "force"), inferred=_INFERRED_SESSION, unsupported=("sessionId",))
RELEASE: Final = ObjectMapping(inferred=_INFERRED_SESSION, unsupported=("sessionId",))


def lift_read(params: Object) -> Object:
    """First and last line -> first line and number of lines."""
    lifted = READ.begin_lifting(params)
    end = lifted.take("endLine")
    lifted.put("limit", end - _first_line(lifted.out) + 1 if type(end) is int else end)
    return lifted.build()


def lower_read(params: Object) -> Object:
    """First line and number of lines -> first and last line."""
    lowered = READ.begin_lowering(params)
    limit = lowered.take("limit")
    lowered.put("endLine", _first_line(params) + limit - 1 if type(limit) is int else limit)
    return lowered.build(READ.unsupported)


def _first_line(params: Object) -> int:
    line = params.get("line")
    return line if type(line) is int else 1


def lift_create(params: Object) -> Object:
    """Lift a terminal to create, with its environment as a list."""
    lifted = CREATE.begin_lifting(params)
    lifted.put("env", lift_pairs(lifted.take("env")))
    return lifted.build()


def lower_create(params: Object) -> Object:
    """Lower a terminal to create, with its environment as a map."""
    lowered = CREATE.begin_lowering(params)
    lowered.put("env", lower_pairs(lowered.take("env")))
    return lowered.build(CREATE.unsupported)


def lift_wait_result(result: Object) -> Object:
    """Lift how a command ended; a negative exit code means none, which is null in v1."""
    lifted = WAIT_RESULT.begin_lifting(result)
    code = lifted.rest.get("exitCode")
    if type(code) is int and code < 0:
        lifted.put("exitCode", None)
    return lifted.build()


def lower_wait_result(result: Object) -> Object:
    """Lower how a command ended; the draft always has an exit code, never null."""
    lowered = WAIT_RESULT.begin_lowering(result)
    code, signal = lowered.take("exitCode", None), lowered.take("signal", None)
    if signal is not None:
        lowered.put("signal", signal)
    lowered.put("exitCode", _exit_code(signal) if code is None else code)
    return lowered.build()


def _exit_code(signal: Json) -> int:
    number = SIGNAL_NUMBERS.get(signal) if isinstance(signal, str) else None
    return NO_EXIT_CODE if number is None else 128 + number


def flag_result_conversion(member: str) -> ConversionPair:
    """Return the conversion of a boolean result: v1 omits true, false is side data."""

    def lift(result: Object) -> Object:
        row = ObjectMapping() if result.get(member) is True else ObjectMapping(side_data=(member,))
        lifted = row.begin_lifting(result)
        if lifted.rest.get(member) is True:
            lifted.take(member)
        return lifted.build()

    return lift, ObjectMapping(side_data=(member,), defaults={member: True}).lower
