"""The MCP servers of a session of an agent: their channels, what they may ask of the user, their slash commands.

Loaded when a client names the first server.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import msgspec

from dragoman.dialect.side_data import side_data_of
from dragoman.engine.connection import Connection
from dragoman.errors import DragomanError
from dragoman.mcp.calls import McpCalls
from dragoman.mcp.channel import Channel
from dragoman.mcp.connection import ServerSettings
from dragoman.mcp.offers import build_server
from dragoman.mcp.results import McpPrompt
from dragoman.mcp.sdk import ServerFailed
from dragoman.mcp.servers import direct_channel
from dragoman.mcp.toolbox import Toolbox
from dragoman.policy.redaction import is_secret_name
from dragoman.schema.elicitation import ElicitationSchema
from dragoman.schema.mcp import McpForm, McpServer

if TYPE_CHECKING:
    from dragoman.roles.agent.session import Session

_calls: WeakKeyDictionary[Connection, McpCalls] = WeakKeyDictionary()
_hosting: WeakKeyDictionary[Connection, asyncio.Future[None]] = WeakKeyDictionary()

ACCEPT, DECLINE = "accept", "decline"


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
        ServerSettings(
            roots=session.roots,
            elicit=lambda params: elicit(session, params),
            sample=None if session.tools.sample is None else partial(sample, session.tools.sample),
        ),
        report=lambda server, text: session.connection.sender.report(f"MCP server {server}: {text}"),
        on_failed=on_failed,
        on_changed=on_changed,
    )
    await toolbox.open()
    return toolbox


def channel_of(session: Session, server: McpServer, report: Callable[[str], None]) -> Channel:
    """Return how a server of this session is reached."""
    if server.form != McpForm.ACP:
        return direct_channel(server, session.cwd, report)
    address = side_data_of(server).get("agentUrl")
    if isinstance(address, str) and address:
        return HostedChannel(server.name, address, str(server.server_id or server.name))
    if isinstance(server.server_id, str):
        return mcp_calls(session.connection).channel(server.name, server.server_id)
    if isinstance(server.acp_id, str):
        return mcp_calls(session.connection).channel(server.name, server.acp_id, spelling="acp_id")
    raise ServerFailed(server.name, "its entry has no serverId")


def mcp_calls(connection: Connection) -> McpCalls:
    """Return the calls of MCP over this connection."""
    found = _calls.get(connection)
    if found is None:
        found = _calls[connection] = McpCalls(lambda: connection)
    return found


async def hosting_calls(connection: Connection, hosted: Mapping[str, Sequence[Callable[..., Any]]]) -> McpCalls:
    """Return the calls of MCP over this connection, with the servers that the agent hosts: its own for each."""
    building = _hosting.get(connection)
    if building is None:
        building = _hosting[connection] = asyncio.ensure_future(_add_servers(mcp_calls(connection), hosted))
    await asyncio.shield(building)
    return mcp_calls(connection)


async def _add_servers(calls: McpCalls, hosted: Mapping[str, Sequence[Callable[..., Any]]]) -> None:
    for name, functions in hosted.items():
        calls.provider.add(await asyncio.to_thread(build_server, name, functions))


async def sample(answer: Callable[[dict[str, Any]], Awaitable[Any]], params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a sampling request: the members that the agent's function gives, or its text."""
    given = await answer(params)
    if isinstance(given, dict):
        return given
    content = {"type": "text", "text": str(given)}
    return {"role": "assistant", "content": content, "model": "agent", "stopReason": "endTurn"}


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


class HostedChannel:
    """A server that another agent hosts, at an address of the user's hosts or on this machine."""

    def __init__(self, name: str, address: str, server_name: str) -> None:
        self.failure = ""
        self._name = name
        self._address = address
        self._server_name = server_name

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Any, Any]]:
        """Connect to the other agent and give the streams of its server."""
        from dragoman.roles.client.connect import connect

        url, token = self._resolve()
        async with connect(url, token=token, reconnect_timeout=0) as agent:
            async with agent.hosted_channel(self._server_name).open() as streams:
                yield streams

    def _resolve(self) -> tuple[str, str]:
        """Return the url and the token; a host that the user did not configure gets no connection."""
        from dragoman.config.config_file import load_config
        from dragoman.config.host_tokens import read_token
        from dragoman.config.paths import user_paths

        url, is_local = agent_address(self._address)
        if not url:
            raise ServerFailed(self._name, f"{self._address!r} is not an address; write acp://HOST[:PORT][/PATH]")
        configured = {host.url.rstrip("/"): host for host in load_config(user_paths().config_file).hosts.values()}
        host = configured.get(url.rstrip("/"))
        if host is not None:
            return url, read_token(host, {})
        if not is_local:
            raise ServerFailed(self._name, f"{url} is not one of your hosts; add it with: dragoman hosts add")
        return url, ""


def agent_address(address: str) -> tuple[str, bool]:
    """Return the url of acp://HOST[:PORT][/PATH], and whether it is on this machine. Credentials in it are refused."""
    parts = urlsplit(address)
    if parts.scheme not in ("acp", "ws", "wss", "http", "https") or not parts.hostname or "@" in parts.netloc:
        return "", False
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    scheme = parts.scheme if parts.scheme != "acp" else "ws" if is_local else "wss"
    return f"{scheme}://{parts.netloc}{parts.path}", is_local
