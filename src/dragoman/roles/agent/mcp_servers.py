"""The MCP servers of a session of an agent: their channels, what they may ask of the user, their slash commands.

Loaded when a client names the first server.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import DragomanError
from dragoman.mcp.channel import Channel
from dragoman.mcp.connection import ServerSettings
from dragoman.mcp.results import McpPrompt
from dragoman.mcp.sdk import ServerFailed
from dragoman.mcp.servers import direct_channel
from dragoman.mcp.toolbox import Toolbox
from dragoman.policy.redaction import is_secret_name
from dragoman.schema.elicitation import ElicitationSchema
from dragoman.schema.mcp import McpServer

if TYPE_CHECKING:
    from dragoman.roles.agent.session import Session

_tasks: set[asyncio.Task[Any]] = set()

ACCEPT, DECLINE = "accept", "decline"


def run_in_background(work: Coroutine[Any, Any, Any]) -> None:
    """Run something that nobody waits for, and keep its task."""
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def open_toolbox(
    session: Session,
    servers: Sequence[McpServer],
    on_failed: Callable[[ServerFailed], None],
    on_changed: Callable[[str], None],
) -> Toolbox:
    """Open the servers of a session side by side."""
    toolbox = Toolbox(
        servers,
        lambda server, report: channel_of(session, server, report),
        ServerSettings(roots=session.roots, elicit=lambda params: elicit(session, params)),
        report=lambda server, text: session.connection.sender.report(f"MCP server {server}: {text}"),
        on_failed=on_failed,
        on_changed=on_changed,
    )
    await toolbox.open()
    return toolbox


def channel_of(session: Session, server: McpServer, report: Callable[[str], None]) -> Channel:
    """Return how a server of this session is reached."""
    return direct_channel(server, session.cwd, report)


async def elicit(session: Session, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Ask the user what a server wants to know, if a turn runs and the client can ask; otherwise decline."""
    turn = session.turn
    mode = "url" if params.get("mode") == "url" else "form"
    if turn is None or not session.connection.offers(f"client.elicitation.{mode}"):
        return DECLINE, {}
    message = str(params.get("message", ""))
    try:
        if mode == "url":
            answer = await turn.elicit(message, url=str(params.get("url", "")))
        else:
            schema = msgspec.convert(params.get("requestedSchema", {}), ElicitationSchema)
            if any(is_secret_name(name) for name in schema.properties or {}):
                return DECLINE, {}  # a secret does not belong into a form, where it is logged
            answer = await turn.elicit(message, form=schema)
    except (DragomanError, msgspec.ValidationError, ValueError):
        return DECLINE, {}
    return answer.action, answer.content


def parse_command(text: str, prompts: Sequence[McpPrompt]) -> tuple[McpPrompt, dict[str, str]] | None:
    """Return the prompt and its arguments, by position, of a text that is /SERVER:PROMPT [ARGUMENTS]."""
    word, _, rest = text.strip().partition(" ")
    known = next((prompt for prompt in prompts if word == f"/{prompt.server}:{prompt.name}"), None)
    if known is None:
        return None
    try:
        words = shlex.split(rest)
    except ValueError:
        words = rest.split()
    names = [argument.name for argument in known.arguments]
    if len(words) > len(names) > 0:  # the last argument takes the rest
        words = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])]
    return known, dict(zip(names, words, strict=False))
