"""A mixture of both cases. `"@type"` names the kind of an update, a permission request is an update that is answered by
`permission_response`, and `cancel` is a request.
"""

from __future__ import annotations

from dragoman.dialect.crow import codec, tables
from dragoman.dialect.crow.emulator import AgentEmulator, ClientEmulator
from dragoman.dialect.dialects import Dialect, TurnCancel, parts_of
from dragoman.schema.side import Side

DIALECT = Dialect(
    **parts_of(codec, tables),
    emulators={Side.CLIENT: ClientEmulator, Side.AGENT: AgentEmulator},
    turn_cancel=TurnCancel(method="cancel", session_member="session_id", is_request=True),
    extra_prompt_capabilities=frozenset({"text"}),
    has_file_extensions=False,
)
