"""A prompt that waits at the node of its client until the owner of the session answers it, and the answer in a log."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.engine.incoming import DoneCallback
from dragoman.errors import Kind, ProtocolError
from dragoman.host.access import interrupted_error
from dragoman.host.room.agent import INTERRUPTED
from dragoman.schema.prompt import PromptResult, StopReason
from dragoman.transport.remote.server.auth import Principal


class PendingPrompt(msgspec.Struct, eq=False):
    """A prompt of a client of this node that is not answered yet."""

    id: str
    client: Any  # a HostClient
    params: Any  # as JSON
    done: DoneCallback
    turn: str | None = None  # the turn that the log has for it
    is_offered: bool = False  # whether the owner has it
    is_cancelled: bool = False
    call_id: int = 0  # of the request on the link

    @property
    def principal(self) -> Principal:
        """Who sent it, with which token."""
        return self.client.principal  # type: ignore[no-any-return]


def turn_outcome(body: Any) -> tuple[Any, ProtocolError | None]:
    """Return the answer to a prompt from the entry for the end of its turn."""
    values = body if isinstance(body, dict) else {}
    error = values.get("error")
    if isinstance(error, dict):
        if error.get("kind") == INTERRUPTED:
            return None, interrupted_error("the node that ran it is gone or was cut off")
        return None, ProtocolError(Kind.INTERNAL_ERROR, str(error.get("message", "the turn failed")))
    return PromptResult(stop_reason=values.get("stopReason") or StopReason.END_TURN), None
