"""The ledger of official v1: nothing to remember, and nothing for the hot path to pay."""

from __future__ import annotations

from dragoman.dialect.ledger import Ledger, Settings
from dragoman.schema.side import Side


def open_ledger(peer: Side, settings: Settings) -> Ledger | None:
    """No ledger: v1 is the vocabulary."""
    return None
