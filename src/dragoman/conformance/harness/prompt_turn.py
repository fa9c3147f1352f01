"""PromptTurn: one turn of the agent under test."""

from __future__ import annotations

import msgspec

from dragoman.conformance.harness.peer import Json, ReceivedFrame


class PromptTurn(msgspec.Struct, eq=False):
    """One turn: the id of its prompt, the number of frames before it, and its answer (None: none in time)."""

    id: Json
    session: str
    start: int
    answer: ReceivedFrame | None = None
    stop: str = ""
