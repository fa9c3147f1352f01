"""A first look at a client before it is checked: what it speaks, whether it comes to a prompt, leaves, shows text.

Takes the subject, gives a Trial; raises StartFailed, with what to do, when there is nothing to check.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.client_offer import offer_choices, offer_sessions
from dragoman.conformance.harness.client_process import CommandClient
from dragoman.conformance.requirement import Level, Requirement
from dragoman.conformance.verdict import Found
from dragoman.dialect.detect import of_client
from dragoman.errors import StartFailed
from dragoman.schema.side import Side

# Not of the table: it asks nothing, it only looks.
LOOK = Requirement(id="client.trial", side=Side.CLIENT, level=Level.MAY, sentence="A first look.", source="")

ADVICE = "run it by hand first, and see that it starts the agent of {agent} and prompts it"


class Trial(msgspec.Struct, frozen=True):
    """What a plain turn shows of a client."""

    dialect: str
    leaves: bool
    shows: bool


async def tried(client: CommandClient, dialect: str = "") -> Trial:
    """Meet the client once for its dialect, if that is not known, and once for a whole turn.

    One that comes to no prompt may want a mode, an option or an older session: it is then offered them.
    """
    try:
        client.dialect = dialect or await _spoken(client)
        try:
            return await _turn(client)
        except Found:
            return await _turn(client, offer_choices, offer_sessions)
    except Found as found:
        raise StartFailed(f"{' '.join(str(found).split())}; {ADVICE}") from None


async def _spoken(client: CommandClient) -> str:
    async with client.stage(LOOK) as stage:
        assert isinstance(stage, ClientStage)
        stage.held.add("initialize")
        heard = await stage.introduced()
        return of_client("initialize", heard.message.get("params")) or "v1"


async def _turn(client: CommandClient, *offers: Callable[[ClientStage], None]) -> Trial:
    async with client.stage(LOOK) as stage:
        assert isinstance(stage, ClientStage)
        for offer in offers:
            offer(stage)
        prompt = await stage.begun()
        stage.end(prompt)
        ending = await stage.over()
        return Trial(client.dialect, stage.gone is not None, "check-begin" in ending.shown)
