"""The everything agent: offline, the same every time, and able to do everything an agent can do in the protocol.

For people who write clients: a slash command for each thing a client must cope with. COMMANDS is the one table; what
is announced, what /help lists and what is called all come from it. Below are the acts; above is the command line.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from weakref import WeakSet

from msgspec import UNSET

from dragoman import Agent, ProtocolError, Session, Turn
from dragoman.agents.everything import actions, failures
from dragoman.agents.everything.arguments import Misuse
from dragoman.engine.connection import Connection
from dragoman.schema.config import ConfigChoice, SessionConfigOption, SessionMode
from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk, AvailableCommand, CommandInput

VERSION = "0.1.0"


class Command(NamedTuple):
    """A slash command: its name, what it does, what it takes, and the function that does it."""

    name: str
    description: str
    hint: str
    act: Callable[[Turn, str], Awaitable[str | None]]


# Clients whose next session/new is told of before it is answered.
_early: WeakSet[Connection] = WeakSet()


async def early(turn: Turn, _: str) -> None:
    """Remember to talk too early."""
    _early.add(turn.session.connection)
    await turn.say("Open another session: it will talk before you know its id.")


async def help_(turn: Turn, _: str) -> None:
    """List the commands."""
    for command in COMMANDS:
        await turn.say(f"- `{usage(command)}`: {command.description}\n")


def usage(command: Command) -> str:
    """How a command is called."""
    return f"/{command.name} {command.hint}".rstrip()


COMMANDS: tuple[Command, ...] = (
    Command("echo", "Say TEXT back, exactly", "TEXT", actions.echo),
    Command("think", "Think TEXT aloud", "TEXT", actions.think),
    Command("plan", "Walk through a plan of three steps", "", actions.plan),
    Command("read", "Read a file", "PATH", actions.read),
    Command("write", "Ask, then write TEXT into a file", "PATH TEXT", actions.write),
    Command("edit", "Ask, then replace OLD by NEW in a file", "PATH OLD NEW", actions.edit),
    Command("run", "Ask, then run a command in a terminal", "CMD...", actions.run),
    Command("ask", "Ask for leave and say what you answered", "", actions.ask),
    Command("stream", "Send N different chunks, each of BYTES characters", "N [BYTES]", actions.stream),
    Command("slow", "Take SECONDS, unless it is cancelled", "SECONDS", actions.slow),
    Command("image", "Send a picture", "", actions.image),
    Command("audio", "Send a sound", "", actions.audio),
    Command("resource", "Send a text, some bytes and a link", "", actions.resource),
    Command("merge", "Say the whole prompt as one text, with what it links to", "[TEXT]", actions.merge),
    Command("form", "Ask you to fill in a form", "", actions.form),
    Command("link", "Ask you to follow a link", "", actions.link),
    Command("notice", "Show a notice", "[TEXT]", actions.notice),
    Command("compact", "Tell how the history is shortened", "", actions.compact),
    Command("title", "Give this session a title", "TEXT", actions.title),
    Command("usage", "Tell what this turn cost", "", actions.usage),
    Command("mode", "Change the mode: ask or code", "ID", actions.mode),
    Command("option", "Change an option: model (plain, loud) or verbose (true, false)", "ID VALUE", actions.option),
    Command("error", "Fail with an error of KIND, or stop for that reason", "KIND", failures.error),
    Command("late", "Go on talking after the turn is over", "", failures.late),
    Command("early", "Talk in the next session before it is opened", "", early),
    Command("noise", "Write a line that is no message", "", failures.noise),
    Command("crash", "End the agent in the middle of the turn", "", failures.crash),
    Command("tour", "See a thought, a plan, a tool call and a message", "", actions.tour),
    Command("help", "List these commands", "", help_),
)

_BY_NAME = {command.name: command for command in COMMANDS}

# Only what looks like a command is taken for one: a prompt may well begin with a path.
_CALL = re.compile(r"/([a-z]+)(?:\s(.*))?", re.DOTALL)

# The echo comes in pieces of this many words, as a model's answer would.
_PIECE = 4


def everything(dialect: str = "auto") -> Agent:
    """The everything agent, speaking one dialect or that of its client."""
    agent = Agent(
        "everything",
        version=VERSION,
        title="Everything",
        dialect=dialect,
        image=True,
        audio=True,
        modes=[
            SessionMode(id="ask", name="Ask", description="Asks before it writes a file or runs a command"),
            SessionMode(id="code", name="Code", description="Writes and runs without asking"),
        ],
        options=[
            SessionConfigOption(
                id="model",
                name="Model",
                category="model",
                type="select",
                current_value="plain",
                description="How plain text is echoed",
                options=[
                    ConfigChoice(value="plain", name="Plain", description="As it came"),
                    ConfigChoice(value="loud", name="Loud", description="In capitals"),
                ],
            ),
            SessionConfigOption(
                id="verbose",
                name="Verbose",
                type="boolean",
                current_value=False,
                description="Think aloud before each answer",
            ),
        ],
        commands=[
            AvailableCommand(
                name=command.name,
                description=command.description,
                input=CommandInput(hint=command.hint) if command.hint else UNSET,
            )
            for command in COMMANDS
        ],
        instructions="Send /help to see what this agent can do; anything else is echoed.",
    )
    agent.prompt(answer)
    agent.on_session_opened(opened)
    return agent


async def answer(turn: Turn) -> str | None:
    """Do what the prompt says, or echo it."""
    if _setting(turn, "verbose") is True:
        await turn.think(f"I was told: {turn.text}")
    # A command is what the user wrote, whatever comes along: a file, or what was said before in a session that goes on.
    written = "\n".join(block.text for block in turn.prompt if isinstance(block, TextContent))
    call = _CALL.fullmatch(written.lstrip())
    if call is None:
        await _echo(turn)
        return None
    command = _BY_NAME.get(call[1])
    if command is None:
        await turn.say(f"There is no command `/{call[1]}`; `/help` lists those there are.")
        return None
    try:
        return await command.act(turn, call[2] or "")
    except Misuse:
        await turn.say(f"Call it like this: `{usage(command)}`")
    except failures.Wanted:
        raise
    except ProtocolError as error:
        await turn.say(f"That did not work: {error.message}")
    return None


async def _echo(turn: Turn) -> None:
    """The prompt as Markdown, in several chunks."""
    text = turn.text.upper() if _setting(turn, "model") == "loud" else turn.text
    await turn.say("**You said:**\n\n")
    for line in text.splitlines() or [""]:
        words = line.split(" ") if line else []
        pieces = [" ".join(words[start : start + _PIECE]) for start in range(0, len(words), _PIECE)]
        await turn.say("> ")
        for number, piece in enumerate(pieces):
            await turn.say(piece if number == len(pieces) - 1 else f"{piece} ")
        await turn.say("\n")
    await turn.say("\n`/help` shows what else I can do.\n")


def _setting(turn: Turn, name: str) -> object:
    return next((option.current_value for option in turn.session.options if option.id == name), None)


def opened(session: Session) -> None:
    """A session is about to be answered for: after /early, talk now."""
    if session.connection in _early:
        _early.discard(session.connection)
        session.send_update(AgentMessageChunk(content=TextContent(text="This came before the session was opened.")))
