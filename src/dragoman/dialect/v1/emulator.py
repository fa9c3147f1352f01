"""The emulator of official v1: none for clients; for agents only the models that some still have."""

from __future__ import annotations

from dragoman.dialect.emulator import Emulator, EmulatorSettings
from dragoman.schema.side import Side


def open_emulator(peer_side: Side, settings: EmulatorSettings) -> Emulator | None:
    """Return the emulator: v1 is the vocabulary, and only models, removed but still in use
    (docs/protocol/peers.md#models), need memory.
    """
    if peer_side is Side.CLIENT:
        return None
    from dragoman.dialect.banjo.emulator import AgentEmulator

    return AgentEmulator(peer_side, settings)
