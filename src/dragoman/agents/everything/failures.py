"""Faults of the everything agent that a client must survive: errors, late updates, noise, a crash.

One function per slash command.
"""

from __future__ import annotations

import asyncio
import os
import sys

from dragoman import Kind, ProtocolError, Session, Turn
from dragoman.agents.everything.arguments import one
from dragoman.errors import KINDS
from dragoman.schema.content import TextContent
from dragoman.schema.prompt import StopReason
from dragoman.schema.update import AgentMessageChunk, SessionInfoUpdate, UsageUpdate

# Stop reasons that /error returns instead of an error. `cancelled` is an error kind there: only a client cancels.
_REASONS = (StopReason.REFUSAL, StopReason.MAX_TOKENS, StopReason.MAX_TURN_REQUESTS, StopReason.ERROR)


class Wanted(ProtocolError):
    """The error that the user requested with /error; it is sent as it is."""


async def error(_: Turn, text: str) -> str:
    """Fail with an error of KIND, or stop with that reason."""
    kind = one(text)
    if kind in _REASONS:
        return kind
    if kind in KINDS:
        raise Wanted(kind, f"you asked for the error {kind}", {"command": "/error"})
    known = ", ".join((*_REASONS, *KINDS))
    raise ProtocolError(Kind.INVALID_PARAMS, f"unknown error {kind!r}; choose one of: {known}")


async def late(turn: Turn, _: str) -> None:
    """Send updates after the turn is over."""
    await turn.say("More comes after the answer.")
    # Nothing is awaited from here to the answer, so the answer is written before this callback runs.
    asyncio.get_running_loop().call_soon(_say_late, turn.session)


def _say_late(session: Session) -> None:
    session.send_update(AgentMessageChunk(content=TextContent(text="This came after the answer.")))
    session.send_update(UsageUpdate(used=1600, size=8000))
    session.send_update(SessionInfoUpdate(title=session.title or "A session with late news"))


async def noise(turn: Turn, _: str) -> None:
    """Write a line that is not JSON to the transport."""
    turn.session.connection.transport.send(b"everything: this line is no JSON, and a good client survives it")
    await turn.say("There was noise on the line before this.")


async def crash(turn: Turn, _: str) -> None:
    """End the whole process in the middle of the turn."""
    await turn.say("Goodbye.")
    await turn.session.drain()
    await asyncio.sleep(0)  # let the message be sent first
    print("everything: crashing, as I was told", file=sys.stderr, flush=True)
    os._exit(3)
