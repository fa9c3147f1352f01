"""The next official protocol, a draft: prompts are answered at once, the session's state says when work ends, and
agents own their terminals. Spoken when asked for, or when the peer offers it.
"""

from __future__ import annotations

from dragoman.dialect.dialects import Dialect, parts_of
from dragoman.dialect.v2 import codec, tables
from dragoman.dialect.v2.agent_emulator import AgentEmulator
from dragoman.dialect.v2.client_emulator import ClientEmulator
from dragoman.schema.side import Side

DIALECT = Dialect(
    **parts_of(codec, tables),
    emulators={Side.CLIENT: ClientEmulator, Side.AGENT: AgentEmulator},
    official=True,
    version=2,
    checks_ids=True,
    cancels=True,
    is_wide=True,
    has_file_extensions=False,
)
