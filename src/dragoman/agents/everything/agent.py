"""The everything agent: offline, deterministic, and able to do everything an agent can do in the protocol.

For authors of clients: it has a slash command for each thing that a client must handle. COMMANDS is the one table of
them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from weakref import WeakSet

from msgspec import UNSET

from dragoman import Agent, ProtocolError, Session, Turn
from dragoman.agents.everything import actions, live, mcp
from dragoman.engine.connection import Connection
from dragoman.schema.config import ConfigChoice, SessionConfigOption, SessionMode
from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk, AvailableCommand, CommandInput

VERSION = "0.1.0"


class Command(NamedTuple):
    """A slash command: its name, description, arguments and function."""

    name: str
    description: str
    hint: str
    act: Callable[[Turn, str], Awaitable[str | None]]


# Clients that get an update before the answer to their next session/new.
_early: WeakSet[Connection] = WeakSet()


async def early(turn: Turn, _: str) -> None:
    """Send an update before the next session/new is answered."""
    _early.add(turn.session.connection)
    await turn.say("Open another session: it sends an update before you know its id.")


async def help_(turn: Turn, _: str) -> None:
    """List the commands."""
    for command in COMMANDS:
        await turn.say(f"- `{usage(command)}`: {command.description}\n")


def usage(command: Command) -> str:
    """Return the syntax of a command."""
    return f"/{command.name} {command.hint}".rstrip()


COMMANDS: tuple[Command, ...] = (
    Command("echo", "Echo TEXT exactly", "TEXT", actions.echo),
    Command("think", "Think TEXT aloud", "TEXT", actions.think),
    Command("plan", "Walk through a plan of three steps", "", actions.plan),
    Command("read", "Read a file", "PATH", actions.read),
    Command("write", "Ask, then write TEXT into a file", "PATH TEXT", actions.write),
    Command("edit", "Ask, then replace OLD by NEW in a file", "PATH OLD NEW", actions.edit),
    Command("run", "Ask, then run a command in a terminal", "CMD...", actions.run),
    Command("ask", "Ask for permission and say what you answered", "", actions.ask),
    Command("stream", "Send N different chunks, each of BYTES characters", "N [BYTES]", actions.stream),
    Command("slow", "Take SECONDS, unless it is cancelled", "SECONDS", actions.slow),
    Command("image", "Send a picture", "", actions.image),
    Command("audio", "Send a sound", "", actions.audio),
    Command(
        "resource", "Send a text, some bytes and a link; or read URI of an MCP server", "[SERVER URI]", mcp.resource
    ),
    Command("tools", "List the tools, resources and prompts of the MCP servers", "", mcp.tools),
    Command("call", "Call TOOL of an MCP server with arguments in JSON", "SERVER TOOL [JSON]", mcp.call),
    Command("merge", "Say the whole prompt as one text, with what it links to", "[TEXT]", actions.merge),
    Command("form", "Ask you to fill in a form", "", actions.form),
    Command("link", "Ask you to follow a link", "", actions.link),
    Command("notice", "Show a notice", "[TEXT]", actions.notice),
    Command("compact", "Report that the history is compacted", "", actions.compact),
    Command("title", "Give this session a title", "TEXT", actions.title),
    Command("usage", "Report what this turn cost", "", actions.usage),
    Command("mode", "Change the mode: ask or code", "ID", actions.mode),
    Command("option", "Change an option: model (plain, loud) or verbose (true, false)", "ID VALUE", actions.option),
    Command("steer", "Take N prompts that you send while I work", "[N]", live.steer),
    Command("background", "Go on for SECONDS after the turn", "[SECONDS]", live.background),
    Command("wake", "Work without a prompt, SECONDS after the turn", "[SECONDS]", live.wake),
    Command("rewrite", "Say something, then replace it by TEXT", "[TEXT]", live.rewrite),
    Command("unsay", "Say something, then take it back", "", live.unsay),
    Command("clear", "Clear the content of a tool call", "", live.clear),
    Command("terminal", "Run a command in a terminal of my own", "CMD...", live.terminal),
    Command("wait", "Take SECONDS in a tool call that you can cancel alone", "SECONDS", live.wait),
    Command(
        "error",
        "Fail with an error of KIND, or stop for that reason; late: after a message",
        "KIND [late]",
        actions.error,
    ),
    Command("late", "Send updates after the turn is over", "", actions.late),
    Command("early", "Send an update in the next session before it is opened", "", early),
    Command("noise", "Write a line that is not a message", "", actions.noise),
    Command("crash", "End the agent in the middle of the turn", "", actions.crash),
    Command("tour", "See a thought, a plan, a tool call and a message", "", actions.tour),
    Command("help", "List these commands", "", help_),
)

_BY_NAME = {command.name: command for command in COMMANDS}

# Only what looks like a command is one: a prompt may start with a path.
_CALL = re.compile(r"/([a-z]+)(?:\s(.*))?", re.DOTALL)

# Words in each chunk of the echo.
_PIECE = 4


def everything(dialect: str = "auto") -> Agent:
    """Create the everything agent, with one dialect or that of its client."""
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
    agent.steer(live.take_prompt)
    agent.on_session_opened(on_opened)
    return agent


async def answer(turn: Turn) -> str | None:
    """Run the command in the prompt, or echo the prompt."""
    if _setting(turn, "verbose") is True:
        await turn.think(f"I was told: {turn.text}")
    # A command is in the text that the user wrote, not in attached files or earlier messages.
    written = "\n".join(block.text for block in turn.prompt if isinstance(block, TextContent))
    call = _CALL.fullmatch(written.lstrip())
    if call is None:
        await _echo(turn)
        return None
    command = _BY_NAME.get(call[1])
    if command is None:
        await turn.say(f"There is no command `/{call[1]}`; `/help` lists all commands.")
        return None
    try:
        return await command.act(turn, call[2] or "")
    except actions.Misuse:
        await turn.say(f"Call it like this: `{usage(command)}`")
    except actions.Wanted:
        raise
    except ProtocolError as error:
        await turn.say(f"That did not work: {error.message}")
    return None


async def _echo(turn: Turn) -> None:
    """Send the prompt back as Markdown, in several chunks."""
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


def on_opened(session: Session) -> None:
    """Send an update before session/new is answered, if /early asked for it."""
    if session.connection in _early:
        _early.discard(session.connection)
        session.send_update(AgentMessageChunk(content=TextContent(text="This came before the session was opened.")))
