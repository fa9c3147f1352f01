"""The slash commands of the everything agent, one function each: it takes the turn and the arguments as text.

Uses only the public API. Errors (missing file, permission refused) are reported in the answer; only `/error` makes the
prompt fail.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dragoman import Kind, ProtocolError, Tool, Turn
from dragoman.agents.everything import samples
from dragoman.agents.everything.arguments import Misuse, located, numbers, one, short, some, split
from dragoman.schema.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
)
from dragoman.schema.plan import PlanEntry, PlanEntryPriority, PlanEntryStatus

if TYPE_CHECKING:
    from dragoman import ElicitationAnswer
    from dragoman.roles.agent.elicitation import Form

# Shell syntax: a line with one of these is run by a shell, others directly.
_SHELL_CHARACTERS = frozenset("|&;<>()$`\\*?[]{}#~=!\n")

_STEPS = (
    ("Look around", PlanEntryPriority.HIGH),
    ("Do the work", PlanEntryPriority.MEDIUM),
    ("Tell about it", PlanEntryPriority.LOW),
)


# --- saying ---------------------------------------------------------------------------------------------------


async def echo(turn: Turn, text: str) -> None:
    """Echo TEXT exactly."""
    await turn.say(text)


async def think(turn: Turn, text: str) -> None:
    """Think TEXT aloud, then answer."""
    await turn.think(text)
    await turn.say("I thought about it.")


async def stream(turn: Turn, text: str) -> None:
    """Send N different chunks."""
    count, size = numbers(text, 1, 2)
    for number in range(int(count)):
        await turn.say(samples.chunk(number, int(size or 0)))


async def slow(turn: Turn, text: str) -> None:
    """Take SECONDS; a cancel ends it at once."""
    (seconds,) = numbers(text, 1, 1)
    async with turn.tool(f"Wait {seconds:g} seconds", kind="other") as call:
        await call.start()
        await asyncio.sleep(seconds)
    await turn.say(f"I waited {seconds:g} seconds.")


async def image(turn: Turn, _: str) -> None:
    """Send a PNG."""
    await turn.say("A picture of 16 by 16 pixels:")
    await turn.say(ImageContent(data=samples.base64(samples.picture()), mime_type="image/png"))


async def audio(turn: Turn, _: str) -> None:
    """Send a WAV."""
    await turn.say("A quarter of a second of sound:")
    await turn.say(AudioContent(data=samples.base64(samples.sound()), mime_type="audio/wav"))


async def resource(turn: Turn, _: str) -> None:
    """Send a text, some bytes and a link."""
    blob = samples.base64(samples.picture())
    await turn.say("A text, some bytes, and a link:")
    await turn.say(
        EmbeddedResource(
            resource=ResourceContents(uri="everything:///note.md", mime_type="text/markdown", text=samples.DOCUMENT)
        )
    )
    await turn.say(
        EmbeddedResource(resource=ResourceContents(uri="everything:///dot.png", mime_type="image/png", blob=blob))
    )
    await turn.say(ResourceLink(name="the working directory", uri=f"file://{turn.session.cwd}"))


# --- planning and doing ---------------------------------------------------------------------------------------


async def plan(turn: Turn, _: str) -> None:
    """Work through a plan of three entries."""
    for done in range(len(_STEPS)):
        await _show_plan(turn, done)
        await turn.say(f"{_STEPS[done][0]}: done.\n")
    await _show_plan(turn, len(_STEPS))


async def _show_plan(turn: Turn, done: int) -> None:
    """Return the plan with step `done` in progress and all before it completed."""
    statuses = [PlanEntryStatus.COMPLETED] * done + [PlanEntryStatus.IN_PROGRESS]
    statuses += [PlanEntryStatus.PENDING] * len(_STEPS)
    await turn.plan(
        *(
            PlanEntry(content=content, priority=priority, status=status)
            for (content, priority), status in zip(_STEPS, statuses, strict=False)
        )
    )


async def tour(turn: Turn, _: str) -> None:
    """Show everything that needs no permission: thought, plan, tool call, message."""
    await turn.think("Somebody wants to see what an agent can say. A thought comes first, so this is one.")
    await _show_plan(turn, 0)
    where = turn.session.cwd
    async with turn.tool("Look around", kind="search", input={"path": where}, paths=[where]) as call:
        await call.add_text(f"The session's folder is {where}\n")
    await _show_plan(turn, 1)
    await turn.say("This is a **message**; it came in several pieces, ")
    await turn.say("after a thought, a plan and a tool call.\n\n")
    await _show_plan(turn, 2)
    await turn.say("Try `/write note.txt hello`: it asks you first. `/help` lists the rest.\n")
    await _show_plan(turn, 3)


async def read(turn: Turn, text: str) -> None:
    """Read a text file through the client, or directly if the client offers no files."""
    path = located(turn, one(text))
    async with turn.tool(f"Read {short(turn, path)}", kind="read", input={"path": path}, paths=[path]) as call:
        content = await turn.files.read(path)
        await call.add_text(content)
    lines = len(content.splitlines())
    await turn.say(f"`{short(turn, path)}` has {lines} line{'' if lines == 1 else 's'}.")


async def write(turn: Turn, text: str) -> None:
    """Write a text file, after asking."""
    name, _, content = text.lstrip().partition(" ")
    path = located(turn, one(name))
    async with _asking(turn, f"Write {short(turn, path)}", kind="edit", input={"path": path}, paths=[path]) as call:
        await _change(turn, call, path, await _current(turn, path), content)


async def edit(turn: Turn, text: str) -> None:
    """Replace OLD by NEW in a text file, after asking."""
    words = split(text)
    if len(words) != 3:
        raise Misuse
    path, old, new = located(turn, words[0]), words[1], words[2]
    async with _asking(turn, f"Edit {short(turn, path)}", kind="edit", input={"path": path}, paths=[path]) as call:
        before = await turn.files.read(path)
        if old not in before:
            raise ProtocolError(Kind.INVALID_PARAMS, f"{short(turn, path)} does not contain {old!r}")
        await _change(turn, call, path, before, before.replace(old, new, 1))


async def _change(turn: Turn, call: Tool, path: str, before: str | None, after: str) -> None:
    """Ask for permission with a diff, write the file, and report the result."""
    await call.preview_diff(path, before, after)
    if not await _is_allowed(turn, call):
        await turn.say(f"I left `{short(turn, path)}` as it is.")
        return
    await turn.files.write(path, after)
    await call.finish()
    await turn.say(f"{'Changed' if before is not None else 'Created'} `{short(turn, path)}`.")


async def _current(turn: Turn, path: str) -> str | None:
    """Return the content of the file; None if it is missing or unreadable (then writing fails)."""
    try:
        return await turn.files.read(path)
    except ProtocolError:
        return None


async def run(turn: Turn, text: str) -> None:
    """Run a command in a terminal, after asking."""
    text = some(text.strip())
    words = ["/bin/sh", "-c", text] if _SHELL_CHARACTERS.intersection(text) else split(text)
    async with _asking(turn, f"Run {text}", kind="execute", input={"command": text}) as call:
        if not await _is_allowed(turn, call):
            await turn.say("I did not run it.")
            return
        async with await turn.terminals.create(words[0], words[1:], cwd=turn.session.cwd) as terminal:
            if turn.terminals.uses_client:
                await call.add_terminal(terminal.id)
            await terminal.wait()
            ended = await terminal.output()
        if not turn.terminals.uses_client:
            await call.add_text(ended.output)
        how = f"was ended by {ended.signal}" if ended.signal else f"ended with exit code {ended.exit_code}"
        await call.finish("completed" if ended.exit_code == 0 else "failed", {"exitCode": ended.exit_code})
    await turn.say(f"`{text}` {how}.")


async def ask(turn: Turn, _: str) -> None:
    """Ask for permission to do nothing, and report the answer."""
    answer = await turn.ask_permission("May I? Nothing will happen either way", kind="other")
    if answer.cancelled:
        await turn.say("The question was closed without an answer.")
    else:
        await turn.say(f"You chose `{answer.option_id}`, which {'allows' if answer else 'refuses'} it.")


def _asking(turn: Turn, title: str, **members: Any) -> Tool:
    """Create a tool call that says whether permission will be requested."""
    return turn.tool(title, requires_permission=turn.session.mode != "code", **members)


async def _is_allowed(turn: Turn, call: Tool) -> bool:
    """Ask for permission in the mode `ask`; not in the mode `code`."""
    return turn.session.mode == "code" or bool(await call.ask_permission())


# --- the session ----------------------------------------------------------------------------------------------


async def title(turn: Turn, text: str) -> None:
    """Set the title of the session."""
    turn.session.set_title(some(text))
    await turn.say("This session has a title now.")


async def usage(turn: Turn, _: str) -> None:
    """Report the context usage, and the cost of the turn."""
    await turn.report_usage(input_tokens=10, output_tokens=5, context_used=1500, context_size=8000, cost=0.25)
    await turn.say("15 tokens in this turn, 1500 of 8000 in the context.")


async def mode(turn: Turn, text: str) -> None:
    """Change the mode of the session."""
    turn.session.set_mode(one(text))
    await turn.say(f"The mode is `{turn.session.mode}` now.")


async def option(turn: Turn, text: str) -> None:
    """Change a config option of the session."""
    words = split(text)
    if len(words) != 2:
        raise Misuse
    name, value = words
    switches = {option.id for option in turn.session.options if option.form == "boolean"}
    turn.session.set_option(name, _switch(value) if name in switches else value)
    await turn.say(f"The option `{name}` is `{value}` now.")


def _switch(value: str) -> bool:
    if value not in ("true", "false"):
        raise Misuse
    return value == "true"


LINK = "https://example.org/everything?session="


async def form(turn: Turn, _: str) -> None:
    """Send a form with a field of every simple type."""
    fields: Form = {"name": str, "age": int, "height": float, "awake": bool, "colour": ["red", "green", "blue"]}
    answer = await turn.elicit("Tell me about yourself", form=fields)
    if not answer:
        await turn.say(_unfilled(answer))
        return
    for name, value in answer.content.items():
        await turn.say(f"- {name}: `{value}`\n")


async def link(turn: Turn, _: str) -> None:
    """Send a link; report it as completed right after the user accepted."""
    answer = await turn.elicit("Visit a page that is not there", url=f"{LINK}{turn.session.id}")
    if not answer:
        await turn.say(_unfilled(answer))
        return
    answer.complete()
    await turn.say("You were there, I take it.")


def _unfilled(answer: ElicitationAnswer) -> str:
    return "You declined." if answer.action == "decline" else "You closed the question."


async def notice(turn: Turn, text: str) -> None:
    """Send a notice; a client without notices gets only the answer."""
    await turn.send_notice(text or "Nothing is wrong", "This is only a notice.", severity="info")
    await turn.say("There was a notice before this, for clients that show notices.")


async def compact(turn: Turn, _: str) -> None:
    """Report a compaction that changes nothing: the history stays for replay."""
    async with turn.compaction() as work:
        await work.add_summary("Somebody tried slash commands, ")
        await work.add_summary("and this was one of them.")
    await turn.say("I have told you the short version, if you show such things.")


async def merge(turn: Turn, _: str) -> None:
    """Send the prompt as a model would get it."""
    await turn.say(await turn.prompt_text())
