"""The current official protocol, in camelCase. The vocabulary is v1: nearly everything passes unchanged."""

from __future__ import annotations

from dragoman.dialect.dialects import Dialect, NativeForm, parts_of
from dragoman.dialect.emulator import Emulator, EmulatorSettings
from dragoman.dialect.v1 import codec, models, tables
from dragoman.schema.side import Side


def _open_agent_emulator(peer_side: Side, settings: EmulatorSettings) -> Emulator:
    """For models, which were removed but are still in use (docs/protocol/peers.md#models)."""
    from dragoman.dialect.banjo.emulator import AgentEmulator

    return AgentEmulator(peer_side, settings)


DIALECT = Dialect(
    **parts_of(codec, tables),
    emulators={Side.AGENT: _open_agent_emulator},
    native=NativeForm(
        is_plain_call=codec.is_plain_call,
        translated_results=codec.TRANSLATED_RESULTS,
        translated_stops=tables.STOP_ERRORS,
        is_incomplete=models.is_incomplete,
    ),
    official=True,
    version=1,
    cancels=True,
)
