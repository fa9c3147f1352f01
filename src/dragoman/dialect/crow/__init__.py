"""A mixture of both cases. `"@type"` names the kind of an update, a permission request is an update that is answered by
`permission_response`, and `cancel` is a request.
"""

from __future__ import annotations

from dragoman.dialect.crow import codec, tables
from dragoman.dialect.crow.emulator import AgentEmulator, ClientEmulator
from dragoman.dialect.dialects import Dialect, TurnCancel
from dragoman.schema.side import Side

DIALECT = Dialect(
    name=tables.NAME,
    lift_call=codec.lift_call,
    lower_call=codec.lower_call,
    lift_result=codec.lift_result,
    lower_result=codec.lower_result,
    error_codes=tables.CODES,
    chunk_form=tables.CHUNK,
    emulators={Side.CLIENT: ClientEmulator, Side.AGENT: AgentEmulator},
    error_paths=tables.ERROR_PATHS,
    turn_cancel=TurnCancel(method="cancel", session_member="session_id", is_request=True),
    extra_prompt_capabilities=frozenset({"text"}),
    has_file_extensions=False,
)
