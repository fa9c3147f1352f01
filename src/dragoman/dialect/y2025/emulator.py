"""Choose the 2025.1 emulator by the role of the other end."""

from __future__ import annotations

from dragoman.dialect.emulator import Emulator, EmulatorSettings
from dragoman.dialect.y2025.agent_emulator import AgentEmulator
from dragoman.dialect.y2025.client_emulator import ClientEmulator
from dragoman.schema.side import Side


def open_emulator(peer_side: Side, settings: EmulatorSettings) -> Emulator | None:
    """Return the emulator for a peer that plays `peer` and speaks 2025.1."""
    return (ClientEmulator if peer_side is Side.CLIENT else AgentEmulator)(peer_side, settings)
