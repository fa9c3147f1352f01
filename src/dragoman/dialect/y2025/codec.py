"""2025.1 spelled: every call and every result of seed 000 to the vocabulary and back, by table.

JSON builtins in, JSON builtins out; pure. Files and terminals have no session here and sessions no directory:
those members are lifted empty and noted as inferred, for the ledger to fill in.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.mapping import Pair, Row
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Object, refuse_encoding
from dragoman.dialect.side_data import cleared, plain
from dragoman.dialect.v1.tables import EXTENSION
from dragoman.dialect.y2025 import initialize, shell_line
from dragoman.dialect.y2025.content import lift_blocks, lower_blocks
from dragoman.dialect.y2025.tables import (
    DIALECT,
    EXIT,
    SESSION,
    SETUP_INFERRED,
    SETUP_RESULT_UNSAID,
    SETUP_UNSAID,
    TERMINAL,
)
from dragoman.dialect.y2025.update import lift_update, lower_update
from dragoman.errors import Unsayable
from dragoman.schema.side import Side

# Updates are the hot path, and capabilities may hold something under our key: these two see to it themselves.
_CLEARED_INSIDE: Final = frozenset({"initialize", "session/update"})


def lift_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """A call as `side` receives it from a 2025.1 peer, in the vocabulary."""
    row = CALLS.get((side, method))
    if row is None or not isinstance(params, dict):
        return method, params if method.startswith(EXTENSION) else cleared(params)
    return method, row[0](params if method in _CLEARED_INSIDE else cleared(params))


def lower_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """A call of the vocabulary as a 2025.1 peer, which is `side`, expects it."""
    row = CALLS.get((side, method))
    if row is None:
        if method.startswith(EXTENSION):
            return method, params
        raise Unsayable(DIALECT, method)
    if not isinstance(params, dict):
        return method, params
    refuse_encoding(DIALECT, method, params)
    said = row[1](params)
    return method, said if method == "session/update" else plain(said)


def lift_result(side: Side, method: str, result: Json) -> Json:
    """What a 2025.1 peer, which is `side`, answered to a vocabulary method."""
    row = RESULTS.get((side, method))
    result = cleared(result)
    return row[0](result) if row and isinstance(result, dict) else result


def lower_result(side: Side, method: str, result: Json) -> Json:
    """What `side` answers to a request of a 2025.1 peer; nothing at all counts as an empty object."""
    row = RESULTS.get((side, method))
    if row is None:
        if (side, method) in CALLS or method.startswith(EXTENSION):
            return plain(result)
        raise Unsayable(DIALECT, f"the result of {method}")
    return plain(row[1](result or {})) if result is None or isinstance(result, dict) else result


NEW: Final = Row(side={**SESSION, "mode": "mode"}, inferred=SETUP_INFERRED, unsaid=SETUP_UNSAID)
LOAD: Final = Row(SESSION, inferred=SETUP_INFERRED, unsaid=SETUP_UNSAID)
PROMPT: Final = Row(SESSION)
CANCEL: Final = Row(SESSION)
FILE: Final = Row(inferred={"sessionId": ""}, unsaid=("sessionId", "line", "limit"))
HANDLE: Final = Row(TERMINAL, inferred={"sessionId": ""}, unsaid=("sessionId",))

OK: Final = Row(defaults={"status": "ok"}, unsaid=SETUP_RESULT_UNSAID)
CREATED: Final = Row(SESSION, inferred={"sessionId": ""}, defaults=OK.defaults, unsaid=SETUP_RESULT_UNSAID)
ENDED: Final = Row({"stop_reason": "stopReason"}, inferred={"stopReason": "end_turn"}, defaults=OK.defaults,
                   unsaid=("usage",))  # fmt: skip
EXITED: Final = Row(EXIT)


def _lift_prompt(params: Object) -> Object:
    lifted = PROMPT.read(params)
    lifted.put("prompt", lift_blocks(lifted.take("content")))
    return lifted.done()


def _lower_prompt(params: Object) -> Object:
    low = PROMPT.say(params)
    low.put("content", lower_blocks(low.take("prompt")))
    return low.done()


def _said_ok(row: Row) -> Pair:
    """A row for results whose `status: "ok"` says nothing; any other status stays where it is."""

    def lift(result: Object) -> Object:
        lifted = row.read(result)
        if lifted.left.get("status") == "ok":
            lifted.take("status")
        return lifted.done()

    return lift, row.lower


def _lift_output(result: Object) -> Object:
    lifted = Lifted(result)
    status = lifted.take("exit_status")
    lifted.put("exitStatus", EXITED.lift(status) if isinstance(status, dict) else status)
    return lifted.done()


def _lower_output(result: Object) -> Object:
    low = Row().say(result)
    status = low.take("exitStatus", ABSENT)
    low.put("exit_status", EXITED.lower(status) if isinstance(status, dict) else status)
    return low.done()


CALLS: Final[dict[tuple[Side, str], Pair]] = {
    (Side.AGENT, "initialize"): (initialize.lift_initialize, initialize.lower_initialize),
    (Side.AGENT, "authenticate"): (initialize.lift_authenticate, initialize.lower_authenticate),
    (Side.AGENT, "session/new"): NEW.pair,
    (Side.AGENT, "session/load"): LOAD.pair,
    (Side.AGENT, "session/prompt"): (_lift_prompt, _lower_prompt),
    (Side.AGENT, "session/cancel"): CANCEL.pair,
    (Side.CLIENT, "session/update"): (lift_update, lower_update),
    (Side.CLIENT, "fs/read_text_file"): FILE.pair,
    (Side.CLIENT, "fs/write_text_file"): FILE.pair,
    (Side.CLIENT, "terminal/create"): (shell_line.lift_create, shell_line.lower_create),
    (Side.CLIENT, "terminal/output"): HANDLE.pair,
    (Side.CLIENT, "terminal/wait_for_exit"): HANDLE.pair,
    (Side.CLIENT, "terminal/kill"): HANDLE.pair,
    (Side.CLIENT, "terminal/release"): HANDLE.pair,
}

RESULTS: Final[dict[tuple[Side, str], Pair]] = {
    (Side.AGENT, "initialize"): (initialize.lift_initialized, initialize.lower_initialized),
    (Side.AGENT, "authenticate"): _said_ok(OK),
    (Side.AGENT, "session/new"): _said_ok(CREATED),
    (Side.AGENT, "session/load"): _said_ok(OK),
    (Side.AGENT, "session/prompt"): _said_ok(ENDED),
    (Side.CLIENT, "fs/write_text_file"): _said_ok(OK),
    (Side.CLIENT, "terminal/create"): Row(TERMINAL).pair,
    (Side.CLIENT, "terminal/output"): (_lift_output, _lower_output),
    (Side.CLIENT, "terminal/wait_for_exit"): EXITED.pair,
    (Side.CLIENT, "terminal/kill"): _said_ok(OK),
    (Side.CLIENT, "terminal/release"): _said_ok(OK),
}
