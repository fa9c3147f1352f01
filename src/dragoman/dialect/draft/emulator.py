"""Choose the draft emulator by the role of the other end."""

from __future__ import annotations

from dragoman.dialect.draft.agent_emulator import AgentEmulator
from dragoman.dialect.draft.client_emulator import ClientEmulator
from dragoman.dialect.emulator import Emulator, EmulatorSettings
from dragoman.schema.side import Side


def open_emulator(peer_side: Side, settings: EmulatorSettings) -> Emulator | None:
    """Return the emulator for a peer that speaks the draft."""
    return ClientEmulator(peer_side, settings) if peer_side is Side.CLIENT else AgentEmulator(peer_side, settings)
