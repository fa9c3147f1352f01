"""Files and terminals of the draft: no session on the calls, line ranges by both ends, results that say more.

Takes and gives one JSON object each. Which session a call belongs to only the ledger knows.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.blocks import lift_pairs, lower_pairs
from dragoman.dialect.draft.tables import NO_EXIT_CODE, SIGNALS
from dragoman.dialect.mapping import Pair, Row
from dragoman.dialect.reshape import Json, Object

_NO_SESSION: Final = {"sessionId": ""}

READ: Final = Row(names={"startLine": "line"}, side=("encoding",), inferred=_NO_SESSION, unsaid=("sessionId",))
READ_RESULT: Final = Row(side=("encoding", "totalLines", "truncated"), defaults={"encoding": "utf-8"})
WRITE: Final = Row(side=("encoding", "createDirectories", "overwrite"), inferred=_NO_SESSION, unsaid=("sessionId",))
WRITTEN: Final = Row(side=("bytesWritten", "created"))
# Section 10.2 has interactive terminals and no word to ask for one: `interactive`, `rows` and `columns` are ours.
CREATE: Final = Row(
    side=("timeout", "interactive", "rows", "columns"), inferred=_NO_SESSION, unsaid=("sessionId", "outputByteLimit")
)
CREATED: Final = Row(side=("pid",))
PUSH: Final = Row(inferred=_NO_SESSION, unsaid=("sessionId",))
POLL: Final = Row(inferred=_NO_SESSION)  # v1's own call: a session that was said stays
WAIT: Final = Row(side=("timeout",), inferred=_NO_SESSION, unsaid=("sessionId",))
EXITED: Final = Row(side=("timedOut",))
KILL: Final = Row(side=("signal", "force"), inferred=_NO_SESSION, unsaid=("sessionId",))
RELEASE: Final = Row(inferred=_NO_SESSION, unsaid=("sessionId",))


def lift_read(params: Object) -> Object:
    """First and last line -> first line and number of lines."""
    lifted = READ.read(params)
    end = lifted.take("endLine")
    lifted.put("limit", end - _first(lifted.out) + 1 if type(end) is int else end)
    return lifted.done()


def lower_read(params: Object) -> Object:
    """First line and number of lines -> first and last line."""
    lowered = READ.say(params)
    limit = lowered.take("limit")
    lowered.put("endLine", _first(params) + limit - 1 if type(limit) is int else limit)
    return lowered.done(READ.unsaid)


def _first(params: Object) -> int:
    line = params.get("line")
    return line if type(line) is int else 1


def lift_create(params: Object) -> Object:
    """A terminal to start, its environment as a list."""
    lifted = CREATE.read(params)
    lifted.put("env", lift_pairs(lifted.take("env")))
    return lifted.done()


def lower_create(params: Object) -> Object:
    """A terminal to start, its environment as a map."""
    lowered = CREATE.say(params)
    lowered.put("env", lower_pairs(lowered.take("env")))
    return lowered.done(CREATE.unsaid)


def lower_exited(result: Object) -> Object:
    """How a command ended; the draft always has an exit code and never a null."""
    lowered = EXITED.say(result)
    code, signal = lowered.take("exitCode", None), lowered.take("signal", None)
    if signal is not None:
        lowered.put("signal", signal)
    lowered.put("exitCode", _code(signal) if code is None else code)
    return lowered.done()


def _code(signal: Json) -> int:
    number = SIGNALS.get(signal) if isinstance(signal, str) else None
    return NO_EXIT_CODE if number is None else 128 + number


def done_or_not(word: str) -> Pair:
    """The pair for a result that is one boolean: true goes without saying in v1, false is side data."""

    def lift(result: Object) -> Object:
        row = Row() if result.get(word) is True else Row(side=(word,))
        lifted = row.read(result)
        if lifted.left.get(word) is True:
            lifted.take(word)
        return lifted.done()

    return lift, Row(side=(word,), defaults={word: True}).lower
