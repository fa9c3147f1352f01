"""What the everything agent does beside the conversation: forms and links, notices, compactions, the merged prompt.

One function a slash command, like the acts; each is something that a client must ask for or lend first. A client that
did not is told so in the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman import Turn

if TYPE_CHECKING:
    from dragoman import Elicited
    from dragoman.roles.agent.elicitation import Form

LINK = "https://example.org/everything?session="


async def form(turn: Turn, _: str) -> None:
    """A form with a field of every plain kind."""
    fields: Form = {"name": str, "age": int, "height": float, "awake": bool, "colour": ["red", "green", "blue"]}
    answer = await turn.elicit("Tell me about yourself", form=fields)
    if not answer:
        await turn.say(_unfilled(answer))
        return
    for name, value in answer.content.items():
        await turn.say(f"- {name}: `{value}`\n")


async def link(turn: Turn, _: str) -> None:
    """A link; right after it was agreed to, what it leads to counts as done."""
    answer = await turn.elicit("Visit a page that is not there", url=f"{LINK}{turn.session.id}")
    if not answer:
        await turn.say(_unfilled(answer))
        return
    answer.complete()
    await turn.say("You were there, I take it.")


def _unfilled(answer: Elicited) -> str:
    return "You declined." if answer.action == "decline" else "You closed the question."


async def notice(turn: Turn, text: str) -> None:
    """A notice; clients that show none hear only the answer."""
    await turn.notice(text or "Nothing is wrong", "This is only a notice.", severity="info")
    await turn.say("There was a notice before this, for clients that show notices.")


async def compact(turn: Turn, _: str) -> None:
    """A compaction that changes nothing: the history stays, for load to replay."""
    async with turn.compaction() as work:
        await work.summary("Somebody tried slash commands, ")
        await work.summary("and this was one of them.")
    await turn.say("I have told you the short version, if you show such things.")


async def merge(turn: Turn, _: str) -> None:
    """The prompt as a model would get it."""
    await turn.say(await turn.merged())
