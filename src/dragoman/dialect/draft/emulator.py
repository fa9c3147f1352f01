"""The draft's memory of one connection: which of two ledgers depends on who the other end is."""

from __future__ import annotations

from dragoman.dialect.draft.agent_emulator import AgentLedger
from dragoman.dialect.draft.client_emulator import ClientLedger
from dragoman.dialect.emulator import Ledger, Settings
from dragoman.schema.side import Side


def open_ledger(peer: Side, settings: Settings) -> Ledger | None:
    """The ledger for a peer that speaks the draft."""
    return ClientLedger(peer, settings) if peer is Side.CLIENT else AgentLedger(peer, settings)
