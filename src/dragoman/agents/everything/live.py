"""The slash commands of the everything agent for what only v2 shows: prompts that join a turn, background work,
messages that change, cleared tool calls, terminals of the agent, the cancel of one tool call.
"""

from __future__ import annotations

import asyncio

from dragoman import Session, Tool, Turn
from dragoman.agents.everything.actions import Misuse, number_of
from dragoman.schema.content import ContentBlock, TextContent

# What joined the turns of /steer, by session.
_JOINED = "everything: joined prompts"

# How long /steer waits for a prompt before it ends. Seconds.
STEER_TIMEOUT = 60.0


async def steer(turn: Turn, text: str) -> None:
    """Wait until so many prompts joined this turn, and repeat each."""
    count = int(number_of(text or "1"))
    queue: asyncio.Queue[str] = asyncio.Queue()
    turn.session.data[_JOINED] = queue
    await turn.say(f"Send me {count} more prompt{'' if count == 1 else 's'}; I am still working on this one.\n")
    try:
        for _ in range(count):
            async with asyncio.timeout(STEER_TIMEOUT):
                await turn.say(f"You added: {await queue.get()}\n")
    except TimeoutError:
        await turn.say("Nothing came, so I stop here.")
    finally:
        del turn.session.data[_JOINED]


async def take_prompt(turn: Turn, prompt: list[ContentBlock]) -> bool:
    """Take a prompt into the running turn if that is /steer; otherwise it waits."""
    queue: asyncio.Queue[str] | None = turn.session.data.get(_JOINED)
    if queue is None:
        return False
    queue.put_nowait("\n".join(block.text for block in prompt if isinstance(block, TextContent)))
    return True


async def background(turn: Turn, text: str) -> None:
    """Start a tool call that goes on for SECONDS after the turn."""
    seconds = number_of(text or "1")

    async def count_down(call: Tool) -> None:
        await call.append_text(f"This takes {seconds:g} seconds.\n")
        await asyncio.sleep(seconds)
        await call.append_text("Done.\n")

    await turn.run_in_background(f"Count to {seconds:g}", count_down)
    await turn.say("That goes on without me.")


async def wake(turn: Turn, text: str) -> None:
    """Begin work without a prompt SECONDS after this turn."""
    seconds = number_of(text or "0")
    task = asyncio.get_running_loop().create_task(_work_later(turn.session, seconds))
    turn.session.data.setdefault("everything: tasks", set()).add(task)  # the loop keeps only a weak reference
    await turn.say("You will hear from me.")


async def _work_later(session: Session, seconds: float) -> None:
    await asyncio.sleep(seconds)
    async with session.work() as turn:
        await turn.say("Nobody asked, and here I am.")


async def rewrite(turn: Turn, text: str) -> None:
    """Say something, then replace it by TEXT."""
    async with turn.message() as message:
        await message.say("A first version, ")
        await message.say("which will not stay.")
        await message.replace(text or "A better version.")


async def unsay(turn: Turn, _: str) -> None:
    """Say something, then take it back."""
    async with turn.message() as message:
        await message.say("You were not meant to read this.")
        await message.clear()
    await turn.say("I said nothing.")


async def clear(turn: Turn, _: str) -> None:
    """Fill a tool call, then clear its content and its location."""
    where = turn.session.cwd
    async with turn.tool("Look around", kind="search", paths=[where]) as call:
        await call.add_text("Something that turns out to be wrong.\n")
        await call.clear("content", "locations")
        await call.append_text("Something that is right.\n")
    await turn.say("The tool call shows only what is right.")


async def terminal(turn: Turn, text: str) -> None:
    """Run a command in a terminal of the agent, which the client shows; the client can cancel it."""
    if not text.strip():
        raise Misuse
    async with turn.tool(f"Run {text}", kind="execute", input={"command": text}) as call:
        async with turn.terminal(text, cancellable=True) as screen:
            await call.add_terminal(screen)
            await screen.run(text, shell=True)
    how = "You stopped it." if screen.cancelled else f"It ended with {screen.exit_code}."
    await turn.say(how)


async def wait(turn: Turn, text: str) -> None:
    """Take SECONDS in a tool call that can be cancelled alone; the turn goes on."""
    seconds = number_of(text)
    async with turn.tool(f"Wait {seconds:g} seconds", kind="other", cancellable=True) as call:
        await call.start()
        await asyncio.sleep(seconds)
    await turn.say("You stopped only that." if call.cancelled else f"I waited {seconds:g} seconds.")
