"""camelCase with other names: `workingDirectory`, updates of `type` and `data`, permission requests for an `operation`
on a `resource`, pushed terminal output, and an error number for almost every kind.
"""

from __future__ import annotations

from dragoman.dialect.dialects import Dialect, parts_of
from dragoman.dialect.draft import codec, tables
from dragoman.dialect.draft.agent_emulator import AgentEmulator
from dragoman.dialect.draft.client_emulator import ClientEmulator
from dragoman.schema.side import Side

DIALECT = Dialect(
    **parts_of(codec, tables),
    emulators={Side.CLIENT: ClientEmulator, Side.AGENT: AgentEmulator},
    opens_in_mode=True,
    appends_system_prompt=True,
    reason_not_shared="an agent of the draft does not say for which session it uses files and terminals",
    extra_prompt_capabilities=frozenset({"streaming", "cancellation", "attachments"}),
    has_workspace_options=True,
)
