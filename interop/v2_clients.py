"""Clients that use an agent of version 2 through `dragoman translate`: one of v1 and one of the draft.

The v1 client is that of the official Python SDK, which rejects what v1 does not allow. The draft has no SDK: its client
is written by hand, frame by frame. Both have the same steps, and return what their user would see.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dragoman.transport.base import Transport
from dragoman.transport.process.transport import spawn
from tests.interop.remote import RemoteClient, StepResult
from tests.pairs.peers import HandClient
from tests.pairs.words import WORDS

# Seconds for one step: crow needs up to 40 to start on a busy machine.
PATIENCE = 120.0

Server = dict[str, Any]


class SeenTurn(NamedTuple):
    """A turn as a client saw it: the text, the stop reason, the number of questions, the states of tool calls."""

    text: str
    reason: str | None
    asked: int
    statuses: list[str | None]
    repeated: list[str]  # messages of the user that came back


class AnyClient(Protocol):
    """The steps of a client."""

    def start(self, command: list[str], cwd: Path) -> None:
        """Start the agent and initialize it."""

    def new(self, cwd: Path, servers: list[Server]) -> str:
        """Open a session with these MCP servers (stdio, as v1 has them)."""

    def prompt(self, session: str, text: str, *, allow: bool = True, cancel: bool = False) -> SeenTurn:
        """Run a turn; with `cancel`, cancel it at the first text."""

    def load(self, session: str, cwd: Path, servers: list[Server]) -> list[str]:
        """Open a stored session; return the messages of the user that are replayed."""

    def stop(self) -> None:
        """End the agent."""


class V1Client:
    """The client of the official Python SDK for v1, in its own process."""

    def __init__(self, log: Path) -> None:
        self._log = (log / "stderr.txt").open("ab")
        self._client = RemoteClient("py_client", PATIENCE, self._log)

    def start(self, command: list[str], cwd: Path) -> None:
        """Start the agent and initialize it."""
        self._client("start", command=command, cwd=str(cwd))

    def new(self, cwd: Path, servers: list[Server]) -> str:
        """Open a session."""
        return str(self._client("new", cwd=str(cwd), servers=servers).result["sessionId"])

    def prompt(self, session: str, text: str, *, allow: bool = True, cancel: bool = False) -> SeenTurn:
        """Run a turn."""
        answer = "allow_once" if allow else "reject_once"
        at = "agent_message_chunk" if cancel else None
        seen = self._client("prompt", session=session, text=text, answer=answer, cancel_on=at)
        states = [update.get("status") for update in seen.of("tool_call") + seen.of("tool_call_update")]
        return SeenTurn(seen.text, seen.result["stopReason"], len(seen.asked), states, _user_messages(seen))

    def load(self, session: str, cwd: Path, servers: list[Server]) -> list[str]:
        """Open a stored session."""
        return _user_messages(self._client("load", session=session, cwd=str(cwd), servers=servers))

    def stop(self) -> None:
        """End the agent."""
        self._client("stop")

    def close(self) -> None:
        """End the client."""
        self._client.close()
        self._log.close()


def _user_messages(seen: StepResult) -> list[str]:
    return [update["content"]["text"] for update in seen.of("user_message_chunk")]


class DraftClient:
    """A client of the draft, written by hand."""

    def __init__(self, log: Path) -> None:
        self._runner = asyncio.Runner()
        self._log = log
        self._client: HandClient
        self._transport: Transport | None = None

    def start(self, command: list[str], cwd: Path) -> None:
        """Start the agent and initialize it."""
        self._runner.run(self._start(command, cwd))

    async def _start(self, command: list[str], cwd: Path) -> None:
        self._transport = await spawn(command, cwd=cwd, stderr=self._note)
        self._client = HandClient(self._transport, WORDS["draft"], timeout=PATIENCE)
        await self._request("initialize", WORDS["draft"].initialize(True, True, str(cwd)))

    def _note(self, piece: bytes) -> None:
        with (self._log / "stderr.txt").open("ab") as file:
            file.write(piece)

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = await self._client.request(method, params)
        assert "result" in answer, f"{method}: {answer.get('error')}"
        return dict(answer["result"])

    def new(self, cwd: Path, servers: list[Server]) -> str:
        """Open a session."""
        wanted = {**WORDS["draft"].new(str(cwd), ""), "mcpServers": [_draft_server(server) for server in servers]}
        return str(self._runner.run(self._request("session/new", wanted))["sessionId"])

    def prompt(self, session: str, text: str, *, allow: bool = True, cancel: bool = False) -> SeenTurn:
        """Run a turn."""
        return self._runner.run(self._prompt(session, text, allow, cancel))

    async def _prompt(self, session: str, text: str, allow: bool, cancel: bool) -> SeenTurn:
        client = self._client
        client.allow = allow
        client.events.clear()
        client.calls.clear()
        id = client.ask("session/prompt", client.words.prompt(session, text))
        while cancel and not any(event[0] == "says" for event in client.events):
            await client.serve_next()
        if cancel:
            client.notify(*client.words.cancel(session))
        answer = await client.answer(id)
        assert "result" in answer, f"session/prompt: {answer.get('error')}"
        asked = sum(call["method"] == "session/request_permission" for call in client.calls)
        states = [event[2] for event in client.events if event[0] == "works"]
        said = "".join(event[1] for event in client.events if event[0] == "says")
        heard = [event[1] for event in client.events if event[0] == "hears"]
        return SeenTurn(said, client.words.reason(answer["result"]), asked, states, heard)

    def load(self, session: str, cwd: Path, servers: list[Server]) -> list[str]:
        """Open a stored session; the draft names no servers here."""
        self._client.events.clear()
        self._runner.run(self._request("session/load", WORDS["draft"].load(session, str(cwd))))
        return [event[1] for event in self._client.events if event[0] == "hears"]

    def stop(self) -> None:
        """End the agent."""
        if self._transport is not None:
            self._runner.run(self._transport.close())
            self._transport = None

    def close(self) -> None:
        """End the event loop."""
        self._runner.close()


def _draft_server(server: Server) -> Server:
    environ = {each["name"]: each["value"] for each in server["env"]}
    transport = {"type": "stdio", "command": server["command"], "args": server["args"], "env": environ}
    return {"name": server["name"], "transport": transport}
