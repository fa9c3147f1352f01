"""The 2025.1 codec: every call and result of docs/protocol/dialects.md#y2025, by table.

JSON in, JSON out; pure. Files and terminals have no session here, and sessions no folder: those members are lifted
empty and marked as inferred, for the emulator to fill in.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.mapping import ConversionPair, ObjectMapping, apply_to_list
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Object, check_encoding
from dragoman.dialect.side_data import strip_private, strip_side_data
from dragoman.dialect.v1.tables import EXTENSION_PREFIXES
from dragoman.dialect.y2025 import initialize, shell_line
from dragoman.dialect.y2025.content import lift_block, lower_block
from dragoman.dialect.y2025.tables import (
    EXIT_NAMES,
    NAME,
    SESSION_NAMES,
    SETUP_INFERRED,
    SETUP_RESULT_UNSUPPORTED,
    SETUP_UNSUPPORTED,
    TERMINAL_NAMES,
)
from dragoman.dialect.y2025.update import lift_update, lower_update
from dragoman.errors import Unsayable
from dragoman.schema.side import Side

# Updates are the hot path, and capabilities may use our key: these two strip side data themselves.
_STRIPPED_LATER: Final = frozenset({"initialize", "session/update"})


def lift_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """Lift a call that `side` receives from a 2025.1 peer."""
    row = CALLS.get((side, method))
    if row is None or not isinstance(params, dict):
        return method, params if method.startswith(EXTENSION_PREFIXES) else strip_side_data(params)
    return method, row[0](params if method in _STRIPPED_LATER else strip_side_data(params))


def lower_call(side: Side, method: str, params: Json) -> tuple[str, Json]:
    """Lower a call for a 2025.1 peer, which is `side`."""
    row = CALLS.get((side, method))
    if row is None:
        if method.startswith(EXTENSION_PREFIXES):
            return method, params
        raise Unsayable(NAME, method)
    if not isinstance(params, dict):
        return method, params
    check_encoding(NAME, method, params)
    said = row[1](params)
    return method, said if method == "session/update" else strip_private(said)


def lift_result(side: Side, method: str, result: Json) -> Json:
    """Lift the result of a 2025.1 peer, which is `side`."""
    row = RESULTS.get((side, method))
    result = strip_side_data(result)
    return row[0](result) if row and isinstance(result, dict) else result


def lower_result(side: Side, method: str, result: Json) -> Json:
    """Lower a result of `side` for a 2025.1 peer; null becomes an empty object."""
    row = RESULTS.get((side, method))
    if row is None:
        if (side, method) in CALLS or method.startswith(EXTENSION_PREFIXES):
            return strip_private(result)
        raise Unsayable(NAME, f"the result of {method}")
    return strip_private(row[1](result or {})) if result is None or isinstance(result, dict) else result


NEW: Final = ObjectMapping(
    side_data={**SESSION_NAMES, "mode": "mode"}, inferred=SETUP_INFERRED, unsupported=SETUP_UNSUPPORTED
)
LOAD: Final = ObjectMapping(SESSION_NAMES, inferred=SETUP_INFERRED, unsupported=SETUP_UNSUPPORTED)
PROMPT: Final = ObjectMapping(SESSION_NAMES)
CANCEL: Final = ObjectMapping(SESSION_NAMES)
FILE_CALL: Final = ObjectMapping(inferred={"sessionId": ""}, unsupported=("sessionId", "line", "limit"))
TERMINAL_CALL: Final = ObjectMapping(TERMINAL_NAMES, inferred={"sessionId": ""}, unsupported=("sessionId",))

OK_RESULT: Final = ObjectMapping(defaults={"status": "ok"}, unsupported=SETUP_RESULT_UNSUPPORTED)
NEW_RESULT: Final = ObjectMapping(
    SESSION_NAMES, inferred={"sessionId": ""}, defaults=OK_RESULT.defaults, unsupported=SETUP_RESULT_UNSUPPORTED
)
PROMPT_RESULT: Final = ObjectMapping(
    {"stop_reason": "stopReason"},
    inferred={"stopReason": "end_turn"},
    defaults=OK_RESULT.defaults,
    unsupported=("usage",),
)
EXIT_STATUS: Final = ObjectMapping(EXIT_NAMES)


def _lift_prompt(params: Object) -> Object:
    lifted = PROMPT.begin_lifting(params)
    lifted.put("prompt", apply_to_list(lift_block, lifted.take("content")))
    return lifted.build()


def _lower_prompt(params: Object) -> Object:
    lowered = PROMPT.begin_lowering(params)
    lowered.put("content", apply_to_list(lower_block, lowered.take("prompt")))
    return lowered.build()


def _drop_ok_status(mapping: ObjectMapping) -> ConversionPair:
    """Return the conversion of results with a redundant `status: "ok"`; any other status stays."""

    def lift(result: Object) -> Object:
        lifted = mapping.begin_lifting(result)
        if lifted.rest.get("status") == "ok":
            lifted.take("status")
        return lifted.build()

    return lift, mapping.lower


def _lift_output(result: Object) -> Object:
    lifted = Lifted(result)
    status = lifted.take("exit_status")
    lifted.put("exitStatus", EXIT_STATUS.lift(status) if isinstance(status, dict) else status)
    return lifted.build()


def _lower_output(result: Object) -> Object:
    lowered = ObjectMapping().begin_lowering(result)
    status = lowered.take("exitStatus", ABSENT)
    lowered.put("exit_status", EXIT_STATUS.lower(status) if isinstance(status, dict) else status)
    return lowered.build()


CALLS: Final[dict[tuple[Side, str], ConversionPair]] = {
    (Side.AGENT, "initialize"): (initialize.lift_initialize, initialize.lower_initialize),
    (Side.AGENT, "authenticate"): (initialize.lift_authenticate, initialize.lower_authenticate),
    (Side.AGENT, "session/new"): NEW.pair,
    (Side.AGENT, "session/load"): LOAD.pair,
    (Side.AGENT, "session/prompt"): (_lift_prompt, _lower_prompt),
    (Side.AGENT, "session/cancel"): CANCEL.pair,
    (Side.CLIENT, "session/update"): (lift_update, lower_update),
    (Side.CLIENT, "fs/read_text_file"): FILE_CALL.pair,
    (Side.CLIENT, "fs/write_text_file"): FILE_CALL.pair,
    (Side.CLIENT, "terminal/create"): (shell_line.lift_create, shell_line.lower_create),
    (Side.CLIENT, "terminal/output"): TERMINAL_CALL.pair,
    (Side.CLIENT, "terminal/wait_for_exit"): TERMINAL_CALL.pair,
    (Side.CLIENT, "terminal/kill"): TERMINAL_CALL.pair,
    (Side.CLIENT, "terminal/release"): TERMINAL_CALL.pair,
}

RESULTS: Final[dict[tuple[Side, str], ConversionPair]] = {
    (Side.AGENT, "initialize"): (initialize.lift_initialize_result, initialize.lower_initialize_result),
    (Side.AGENT, "authenticate"): _drop_ok_status(OK_RESULT),
    (Side.AGENT, "session/new"): _drop_ok_status(NEW_RESULT),
    (Side.AGENT, "session/load"): _drop_ok_status(OK_RESULT),
    (Side.AGENT, "session/prompt"): _drop_ok_status(PROMPT_RESULT),
    (Side.CLIENT, "fs/write_text_file"): _drop_ok_status(OK_RESULT),
    (Side.CLIENT, "terminal/create"): ObjectMapping(TERMINAL_NAMES).pair,
    (Side.CLIENT, "terminal/output"): (_lift_output, _lower_output),
    (Side.CLIENT, "terminal/wait_for_exit"): EXIT_STATUS.pair,
    (Side.CLIENT, "terminal/kill"): _drop_ok_status(OK_RESULT),
    (Side.CLIENT, "terminal/release"): _drop_ok_status(OK_RESULT),
}
