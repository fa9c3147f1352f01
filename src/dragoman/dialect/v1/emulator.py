"""The ledger of official v1: none for clients. Agents may still have models, which only costs those that do."""

from __future__ import annotations

from dragoman.dialect.emulator import Emulator, EmulatorSettings
from dragoman.schema.side import Side


def open_emulator(peer_side: Side, settings: EmulatorSettings) -> Emulator | None:
    """v1 is the vocabulary; only models, gone from it yet in use (peers.md 20), have to be remembered."""
    if peer_side is Side.CLIENT:
        return None
    from dragoman.dialect.banjo.emulator import AgentEmulator

    return AgentEmulator(peer_side, settings)
