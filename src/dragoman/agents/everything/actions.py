"""The slash commands of the everything agent, one function each: it takes the turn and the arguments as text.

Errors (missing file, permission refused) are reported in the answer; only `/error` makes the prompt fail. The last
commands are faults that a client must survive.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from dragoman import Kind, ProtocolError, Session, Tool, Turn
from dragoman.agents.everything import samples
from dragoman.errors import KINDS
from dragoman.schema.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from dragoman.schema.plan import PlanEntry, PlanEntryPriority, PlanEntryStatus
from dragoman.schema.prompt import StopReason
from dragoman.schema.update import AgentMessageChunk, SessionInfoUpdate, UsageUpdate

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

# Stop reasons that /error returns instead of an error. `cancelled` is an error kind there: only a client cancels.
_REASONS = (StopReason.REFUSAL, StopReason.MAX_TOKENS, StopReason.MAX_TURN_REQUESTS, StopReason.ERROR)


class Misuse(Exception):
    """The arguments of a command are invalid."""


class Wanted(ProtocolError):
    """The error that the user requested with /error; it is sent as it is."""


# --- arguments ------------------------------------------------------------------------------------------------


def _words(text: str, count: int = 0) -> list[str]:
    """Split the arguments like a shell; there must be so many, 0 for any number."""
    try:
        found = shlex.split(text)
    except ValueError as fault:
        raise Misuse from fault
    if count and len(found) != count:
        raise Misuse
    return found


def _not_empty(text: str) -> str:
    if not text:
        raise Misuse
    return text


def number_of(text: str) -> float:
    """Return a number of the arguments."""
    try:
        number = float(text)
    except ValueError:
        raise Misuse from None
    if not 0 <= number < 1e9:
        raise Misuse
    return number


def _path(turn: Turn, word: str) -> str:
    """Return the absolute path, which the protocol requires."""
    return os.path.normpath(os.path.join(turn.session.cwd, word))


def _short(turn: Turn, path: str) -> str:
    """Return a path relative to the folder of the session."""
    return path.removeprefix(turn.session.cwd.rstrip("/") + "/")


# --- messages -------------------------------------------------------------------------------------------------


async def echo(turn: Turn, text: str) -> None:
    """Echo TEXT exactly."""
    await turn.say(text)


async def think(turn: Turn, text: str) -> None:
    """Think TEXT aloud, then answer."""
    await turn.think(text)
    await turn.say("I thought about it.")


async def stream(turn: Turn, text: str) -> None:
    """Send N different chunks."""
    count, _, size = text.strip().partition(" ")
    for number in range(int(number_of(count))):
        await turn.say(samples.chunk(number, int(number_of(size or "0"))))


async def slow(turn: Turn, text: str) -> None:
    """Take SECONDS; a cancel ends it at once."""
    seconds = number_of(text)
    async with turn.tool(f"Wait {seconds:g} seconds", kind="other") as call:
        await call.start()
        await asyncio.sleep(seconds)
    await turn.say(f"I waited {seconds:g} seconds.")


async def image(turn: Turn, _: str) -> None:
    """Send a PNG."""
    await turn.say("A picture of 16 by 16 pixels:")
    await turn.say(ImageContent(data=samples.picture(), mime_type="image/png"))


async def audio(turn: Turn, _: str) -> None:
    """Send a WAV."""
    await turn.say("A quarter of a second of sound:")
    await turn.say(AudioContent(data=samples.sound(), mime_type="audio/wav"))


async def resource(turn: Turn, _: str) -> None:
    """Send a text, some bytes and a link."""
    note = ResourceContents(uri="everything:///note.md", mime_type="text/markdown", text=samples.DOCUMENT)
    dot = ResourceContents(uri="everything:///dot.png", mime_type="image/png", blob=samples.picture())
    await turn.say("A text, some bytes, and a link:")
    await turn.say(EmbeddedResource(resource=note))
    await turn.say(EmbeddedResource(resource=dot))
    await turn.say(ResourceLink(name="the working directory", uri=f"file://{turn.session.cwd}"))


# --- planning and doing ---------------------------------------------------------------------------------------


async def plan(turn: Turn, _: str) -> None:
    """Work through a plan of three entries."""
    for done in range(len(_STEPS)):
        await _show_plan(turn, done)
        await turn.say(f"{_STEPS[done][0]}: done.\n")
    await _show_plan(turn, len(_STEPS))


async def _show_plan(turn: Turn, done: int) -> None:
    """Show the plan with step `done` in progress and all before it completed."""
    entries = []
    for number, (content, priority) in enumerate(_STEPS):
        after = PlanEntryStatus.PENDING if number > done else PlanEntryStatus.IN_PROGRESS
        status = PlanEntryStatus.COMPLETED if number < done else after
        entries.append(PlanEntry(content=content, priority=priority, status=status))
    await turn.plan(*entries)


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
    path = _path(turn, *_words(text, 1))
    async with turn.tool(f"Read {_short(turn, path)}", kind="read", input={"path": path}, paths=[path]) as call:
        content = await turn.files.read(path)
        await call.add_text(content)
    lines = len(content.splitlines())
    await turn.say(f"`{_short(turn, path)}` has {lines} line{'' if lines == 1 else 's'}.")


async def write(turn: Turn, text: str) -> None:
    """Write a text file, after asking."""
    name, _, content = text.lstrip().partition(" ")
    path = _path(turn, *_words(name, 1))
    async with _asking(turn, f"Write {_short(turn, path)}", kind="edit", input={"path": path}, paths=[path]) as call:
        await _change(turn, call, path, await _current(turn, path), content)


async def edit(turn: Turn, text: str) -> None:
    """Replace OLD by NEW in a text file, after asking."""
    name, old, new = _words(text, 3)
    path = _path(turn, name)
    async with _asking(turn, f"Edit {_short(turn, path)}", kind="edit", input={"path": path}, paths=[path]) as call:
        before = await turn.files.read(path)
        if old not in before:
            raise ProtocolError(Kind.INVALID_PARAMS, f"{_short(turn, path)} does not contain {old!r}")
        await _change(turn, call, path, before, before.replace(old, new, 1))


async def _change(turn: Turn, call: Tool, path: str, before: str | None, after: str) -> None:
    """Ask for permission with a diff, write the file, and report the result."""
    await call.preview_diff(path, before, after)
    if not await _is_allowed(turn, call):
        await turn.say(f"I left `{_short(turn, path)}` as it is.")
        return
    await turn.files.write(path, after)
    await call.finish()
    await turn.say(f"{'Changed' if before is not None else 'Created'} `{_short(turn, path)}`.")


async def _current(turn: Turn, path: str) -> str | None:
    """Return the content of the file; None if it is missing or unreadable (then writing fails)."""
    try:
        return await turn.files.read(path)
    except ProtocolError:
        return None


async def run(turn: Turn, text: str) -> None:
    """Run a command in a terminal, after asking."""
    text = _not_empty(text.strip())
    words = ["/bin/sh", "-c", text] if _SHELL_CHARACTERS.intersection(text) else _words(text)
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
    turn.session.set_title(_not_empty(text))
    await turn.say("This session has a title now.")


async def usage(turn: Turn, _: str) -> None:
    """Report the context usage, and the cost of the turn."""
    await turn.report_usage(input_tokens=10, output_tokens=5, context_used=1500, context_size=8000, cost=0.25)
    await turn.say("15 tokens in this turn, 1500 of 8000 in the context.")


async def mode(turn: Turn, text: str) -> None:
    """Change the mode of the session."""
    turn.session.set_mode(*_words(text, 1))
    await turn.say(f"The mode is `{turn.session.mode}` now.")


async def option(turn: Turn, text: str) -> None:
    """Change a config option of the session."""
    name, value = _words(text, 2)
    is_switch = any(option.id == name and option.form == "boolean" for option in turn.session.options)
    if is_switch and value not in ("true", "false"):
        raise Misuse
    turn.session.set_option(name, value == "true" if is_switch else value)
    await turn.say(f"The option `{name}` is `{value}` now.")


async def form(turn: Turn, _: str) -> None:
    """Send a form with a field of every simple type."""
    fields: Form = {"name": str, "age": int, "height": float, "awake": bool, "color": ["red", "green", "blue"]}
    answer = await _elicit(turn, "Tell me about yourself", form=fields)
    for name, value in answer.content.items() if answer else ():
        await turn.say(f"- {name}: `{value}`\n")


async def link(turn: Turn, _: str) -> None:
    """Send a link; report it as completed right after the user accepted."""
    url = f"https://example.org/everything?session={turn.session.id}"
    if answer := await _elicit(turn, "Visit a page that is not there", url=url):
        answer.complete()
        await turn.say("You were there, I take it.")


async def _elicit(turn: Turn, message: str, **question: Any) -> ElicitationAnswer:
    """Send a form or a link, and say so if it was not accepted."""
    answer = await turn.elicit(message, **question)
    if not answer:
        await turn.say("You declined." if answer.action == "decline" else "You closed the question.")
    return answer


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


# --- faults ---------------------------------------------------------------------------------------------------


async def error(turn: Turn, text: str) -> str:
    """Fail with an error of KIND, or stop with that reason; with `late`, after a message."""
    kind, *rest = _words(text)[:2] or [""]
    if rest == ["late"]:
        await turn.say("This goes wrong now.\n")
    elif rest or not kind:
        raise Misuse
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
