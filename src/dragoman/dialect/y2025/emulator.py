"""The ledger of 2025.1: which one a connection needs is decided by who is at its other end."""

from __future__ import annotations

from dragoman.dialect.emulator import Ledger, Settings
from dragoman.dialect.y2025.agent_emulator import AgentLedger
from dragoman.dialect.y2025.client_emulator import ClientLedger
from dragoman.schema.side import Side


def open_ledger(peer: Side, settings: Settings) -> Ledger | None:
    """The memory of one connection whose other end plays `peer` and speaks 2025.1."""
    return (ClientLedger if peer is Side.CLIENT else AgentLedger)(peer, settings)
