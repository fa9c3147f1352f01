"""What the everything agent does wrong when it is told to: errors, late news, noise, a crash.

One function a slash command, like the acts: what a client must survive.
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

# Stop reasons that /error gives instead of an error. `cancelled` is a kind of error there: a turn is cancelled from
# outside.
_REASONS = (StopReason.REFUSAL, StopReason.MAX_TOKENS, StopReason.MAX_TURN_REQUESTS, StopReason.ERROR)


class Wanted(ProtocolError):
    """The error that /error was asked for: not to be explained away."""


async def error(_: Turn, text: str) -> str:
    """Fail with an error of KIND, or stop with that reason."""
    kind = one(text)
    if kind in _REASONS:
        return kind
    if kind in KINDS:
        raise Wanted(kind, f"you asked for the error {kind}", {"command": "/error"})
    known = ", ".join((*_REASONS, *KINDS))
    raise ProtocolError(Kind.INVALID_PARAMS, f"there is no error {kind!r}; there are: {known}")


async def late(turn: Turn, _: str) -> None:
    """Go on talking after the turn is over."""
    await turn.say("More comes after the answer.")
    # Nothing is awaited from here to the answer, so it is written before the loop comes to this.
    asyncio.get_running_loop().call_soon(_say_late, turn.session)


def _say_late(session: Session) -> None:
    session.send_update(AgentMessageChunk(content=TextContent(text="This came after the answer.")))
    session.send_update(UsageUpdate(used=1600, size=8000))
    session.send_update(SessionInfoUpdate(title=session.title or "A session with late news"))


async def noise(turn: Turn, _: str) -> None:
    """Write a line that is no JSON where only JSON belongs."""
    turn.session.connection.transport.send(b"everything: this line is no JSON, and a good client survives it")
    await turn.say("There was noise on the line before this.")


async def crash(turn: Turn, _: str) -> None:
    """End the whole process in the middle of the turn."""
    await turn.say("Goodbye.")
    await turn.session.drain()
    await asyncio.sleep(0)  # the farewell leaves before we do
    print("everything: crashing, as I was told", file=sys.stderr, flush=True)
    os._exit(3)
