"""snake_case throughout. The client chooses the session ids, the working directory belongs to the connection, files and
terminals belong to no session, and there are no permission requests.
"""

from __future__ import annotations

from dragoman.dialect.dialects import Dialect, parts_of
from dragoman.dialect.y2025 import codec, tables
from dragoman.dialect.y2025.agent_emulator import AgentEmulator
from dragoman.dialect.y2025.client_emulator import ClientEmulator
from dragoman.schema.side import Side

DIALECT = Dialect(
    **parts_of(codec, tables),
    emulators={Side.CLIENT: ClientEmulator, Side.AGENT: AgentEmulator},
    one_folder=True,
    opens_in_mode=True,
    reason_not_shared="an agent of 2025.1 works in one folder, and does not say for which session it uses files",
    extra_capabilities=frozenset({"streaming", "audio", "tools"}),
    can_ask=False,
    client_chooses_ids=True,
    has_file_extensions=False,
)
