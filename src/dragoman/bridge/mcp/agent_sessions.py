"""The ACP sessions that an MCP host drives: opened, prompted, waited for, answered, cancelled, read and closed.

A turn runs in a task of its own, so it goes on when the call that started it has ended. Permission is asked by the
user's policy; what the policy leaves open waits until the host answers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

import msgspec

from dragoman.config.config_file import NamedAgent
from dragoman.config.paths import UserPaths
from dragoman.errors import DragomanError, Kind, ProtocolError
from dragoman.policy.decision import ALLOW, DENY
from dragoman.roles.client.connect import connect
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.questions import PermissionChoice, PermissionPrompt
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import ClientSession
from dragoman.schema.content import ContentBlock, ResourceLink, TextContent
from dragoman.session.message import Message
from dragoman.session.toolcall import ToolCall

# Sessions at once: each is a process.
MAX_SESSIONS = 16

# How long `prompt` and `wait` wait unless they are told: MCP hosts commonly give a call 60 seconds.
DEFAULT_WAIT = 50.0
MAX_WAIT = 3600.0

# How long a turn may take to end after a cancel. Seconds.
CANCEL_TIMEOUT = 10.0

# Lines of progress kept for a caller that reads slowly.
MAX_LINES = 200

DONE, RUNNING, ASKING = "done", "running", "asking"


class OpenQuestion(msgspec.Struct):
    """A permission request that waits for the host: what is asked, and its options by id."""

    id: str
    text: str
    options: dict[str, str]
    answer: asyncio.Future[str]
    refusal: str | None = None  # the option that refuses


# The options of a question that the agent itself did not give: for a file or a command through us.
_OWN_OPTIONS = {"allow": "Allow once", "deny": "Deny"}


class DrivenSession:
    """One session of an agent, its running turn, and its open question."""

    def __init__(self, id: str, agent: RemoteAgent, session: ClientSession, stack: AsyncExitStack, name: str) -> None:
        self.id = id
        self.agent_name = name
        self.session = session
        self.question: OpenQuestion | None = None
        self.lines: list[str] = []
        self.text = ""
        self.tool_calls: dict[str, str] = {}
        self.stop_reason = ""
        self.error = ""
        self._agent = agent
        self._stack = stack
        self._turn: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._numbers = count(1)

    @property
    def state(self) -> str:
        """Whether a turn runs, asks, or is over."""
        if self.question is not None:
            return ASKING
        return DONE if self._turn is None or self._turn.done() else RUNNING

    def start(self, blocks: list[ContentBlock]) -> None:
        """Start a turn; it goes on by itself."""
        if self.state != DONE:
            raise ProtocolError(Kind.INVALID_STATE, f"session {self.id} is {self.state}; wait, answer or cancel first")
        self.text, self.stop_reason, self.error = "", "", ""
        self.lines.clear()
        self.tool_calls.clear()
        self._turn = asyncio.create_task(self._run(blocks), name=f"turn of {self.id}")

    async def _run(self, blocks: list[ContentBlock]) -> None:
        try:
            async with self.session.prompt(blocks) as turn:
                async for update in turn:
                    self._note(update)
            self.stop_reason = turn.stop_reason or ""
        except DragomanError as error:
            self.error = str(error)
        finally:
            self._changed.set()

    def _note(self, update: Any) -> None:
        kind = type(update).__name__
        if kind == "AgentMessageChunk" and isinstance(update.content, TextContent):
            self.text += update.content.text
        elif kind in ("ToolCallStart", "ToolCallProgress"):
            known = self.session.tool_calls.get(update.tool_call_id)
            if known is not None:
                self.tool_calls[update.tool_call_id] = f"{known.title} ({known.status})"
                self._add_line(self.tool_calls[update.tool_call_id])
        self._changed.set()

    def _add_line(self, line: str) -> None:
        if len(self.lines) < MAX_LINES:
            self.lines.append(line)

    async def wait(self, seconds: float, on_line: Callable[[str], Awaitable[None]] | None = None) -> None:
        """Wait until the turn is over or asks, but not longer; `on_line` gets one line for each step."""
        deadline = asyncio.get_running_loop().time() + min(max(seconds, 0.0), MAX_WAIT)
        while True:
            self._changed.clear()
            while self.lines and on_line is not None:
                await on_line(self.lines.pop(0))
            left = deadline - asyncio.get_running_loop().time()
            if self.state != RUNNING or left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def ask_user(self, prompt: PermissionPrompt) -> PermissionChoice | None:
        """Ask the user of the host, or keep the question until the host answers."""
        options = {option.option_id: option.name for option in prompt.options} or _OWN_OPTIONS
        title = getattr(prompt.tool_call, "title", "") or "The agent asks for permission"
        text = "\n".join([str(title), *prompt.lines])
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        refusals = [each.option_id for each in prompt.options if each.kind.startswith("reject")]
        refusal = "deny" if not prompt.options else refusals[0] if refusals else None
        self.question = asked = OpenQuestion(f"{self.id}-q{next(self._numbers)}", text, options, answer, refusal)
        self._changed.set()
        try:
            chosen = await answer
        finally:
            if self.question is asked:
                self.question = None
            self._changed.set()
        if prompt.options:
            kinds = {option.option_id: option.kind for option in prompt.options}
            is_allowed = kinds[chosen].startswith("allow")
            return PermissionChoice(verdict=ALLOW if is_allowed else DENY, option_id=chosen)
        return PermissionChoice(verdict=ALLOW if chosen == "allow" else DENY)

    def answer(self, question: str, option: str) -> None:
        """Answer the open question."""
        open_question = self.question
        if open_question is None or open_question.id != question:
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, f"session {self.id} has no open question {question!r}")
        if option not in open_question.options:
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"{option!r} is not an option; use one of {', '.join(open_question.options)}"
            )
        if not open_question.answer.done():
            open_question.answer.set_result(option)

    async def wait_answered(self) -> None:
        """Wait until the answered question is gone."""
        deadline = asyncio.get_running_loop().time() + CANCEL_TIMEOUT
        while self.question is not None and self.question.answer.done():
            await asyncio.sleep(0)
            if asyncio.get_running_loop().time() > deadline:
                return

    async def cancel(self) -> None:
        """Cancel the turn and wait for its end. Its open question is not asked any more."""
        self.session.cancel()  # also answers a question of the agent itself
        question, self.question = self.question, None
        if question is not None and question.refusal is not None and not question.answer.done():
            question.answer.set_result(question.refusal)
        await self.wait(CANCEL_TIMEOUT)

    def report(self) -> dict[str, Any]:
        """Return the state of the session, for the host's model."""
        found: dict[str, Any] = {
            "session": self.id,
            "state": self.state,
            "text": self.text,
            "toolCalls": list(self.tool_calls.values()),
        }
        if self.state == DONE and self.stop_reason:
            found["stopReason"] = self.stop_reason
        if self.error:
            found["error"] = self.error
        if self.question is not None:
            found["question"] = {
                "id": self.question.id,
                "text": self.question.text,
                "options": [{"id": id, "name": name} for id, name in self.question.options.items()],
            }
        return found

    def entries(self, after: int = 0) -> list[dict[str, Any]]:
        """Return the transcript from this position on."""
        return [
            _entry(number, each) for number, each in enumerate(self.session.transcript.entries, 1) if number > after
        ]

    async def close(self) -> None:
        """Cancel the turn and end the agent."""
        self.session.cancel()
        if self._turn is not None:
            self._turn.cancel()
            await asyncio.wait([self._turn], timeout=5)
        await self._stack.aclose()


def _entry(number: int, entry: Any) -> dict[str, Any]:
    if isinstance(entry, Message):
        return {"position": number, "role": entry.role, "text": entry.text}
    if isinstance(entry, ToolCall):
        return {"position": number, "role": "tool", "text": f"{entry.title} ({entry.status})"}
    return {"position": number, "role": "other", "text": type(entry).__name__}


class AgentSessions:
    """All sessions of one MCP server."""

    def __init__(
        self, agents: Mapping[str, NamedAgent], default: str, paths: UserPaths | None, *, mode: str | None = None
    ) -> None:
        """`paths` has the user's policy; without, everything is asked."""
        self.agents = dict(agents)
        self.default = default
        self._paths = paths
        self._mode = mode
        self._numbers = count(1)
        self.by_id: dict[str, DrivenSession] = {}

    async def open(self, agent: str, cwd: str, mode: str, model: str) -> DrivenSession:
        """Start an agent and open a session."""
        name = agent or self.default
        if name not in self.agents:
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, f"there is no agent {name!r}; `agents` lists them")
        if not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise ProtocolError(Kind.INVALID_PARAMS, f"cwd must be the absolute path of a folder, not {cwd!r}")
        if len(self.by_id) >= MAX_SESSIONS:
            raise ProtocolError(Kind.RATE_LIMITED, f"{MAX_SESSIONS} sessions are open; close one")
        id = f"session-{next(self._numbers)}"
        return await self._start(id, name, self.agents[name], os.path.realpath(cwd), mode, model)

    async def _start(self, id: str, name: str, agent: NamedAgent, cwd: str, mode: str, model: str) -> DrivenSession:
        async def ask(prompt: PermissionPrompt) -> PermissionChoice | None:
            driven = self.by_id.get(id)
            return None if driven is None else await driven.ask_user(prompt)

        options: dict[str, Any] = {"ask": ask, "mode": self._mode}
        guard = Guard(**options) if self._paths is None else Guard.for_user(self._paths, roots=[cwd], **options)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(guard.close)
            remote = await stack.enter_async_context(
                connect(
                    agent.argv,
                    cwd=cwd,
                    env=dict(agent.env),
                    dialect=agent.dialect,
                    sandbox=agent.confinement,
                    permission=guard.request_permission,
                    workspace=guard.workspace_access(),
                )
            )
            guard.set_agent(remote, os.path.basename(agent.command))
            session = await remote.open_session(cwd, mode=mode or None)
            if model:
                await session.set_option("model", model)
            driven = self.by_id[id] = DrivenSession(id, remote, session, stack.pop_all(), name)
            return driven

    def find(self, id: str) -> DrivenSession:
        """Return a session; raise session_not_found."""
        if id not in self.by_id:
            known = ", ".join(self.by_id) or "none"
            raise ProtocolError(Kind.SESSION_NOT_FOUND, f"there is no session {id!r}; open sessions: {known}")
        return self.by_id[id]

    async def wait_any(self, ids: Sequence[str], seconds: float) -> DrivenSession:
        """Return the first of these sessions that is done or asks; after the time, the first one."""
        sessions = [self.find(id) for id in ids]
        if not sessions:
            raise ProtocolError(Kind.INVALID_PARAMS, "name at least one session")
        waits = [asyncio.create_task(session.wait(seconds)) for session in sessions]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return next((session for session in sessions if session.state != RUNNING), sessions[0])

    async def close(self, id: str) -> None:
        """Close a session and end its agent."""
        session = self.find(id)
        del self.by_id[id]
        await session.close()

    async def close_all(self) -> None:
        """Close all sessions."""
        await asyncio.gather(*(self.close(id) for id in list(self.by_id)), return_exceptions=True)


def prompt_blocks(text: str, files: Sequence[str], cwd: str) -> list[ContentBlock]:
    """Return a prompt with links to files."""
    paths = [os.path.normpath(os.path.join(cwd, path)) for path in files]
    links: list[ContentBlock] = [ResourceLink(name=os.path.basename(path), uri=f"file://{path}") for path in paths]
    return [TextContent(text=text), *links]
