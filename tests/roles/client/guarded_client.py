"""An agent that follows instructions and a user that answers, for tests of the guard."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import UNSET

from dragoman import Agent, ClientSession, ProtocolError, RemoteAgent, Turn
from dragoman.config.grants import GrantsFile
from dragoman.policy.decide import Policy
from dragoman.policy.modes import MODES
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.questions import PermissionChoice, PermissionPrompt
from dragoman.schema.config import SessionMode
from dragoman.schema.permission import PermissionOption
from dragoman.schema.toolcall import Diff, ToolCallLocation, ToolCallUpdate
from dragoman.store.audit import AuditLog
from dragoman.testing import connect_in_memory

DIALECTS = ("v1", "draft")


def scripted_agent(dialect: str = "v1") -> Agent:
    """Return an agent that does one thing for each prompt: asks permission, reads, writes or runs; and reports it."""
    agent = Agent("doer", version="1", dialect=dialect, modes=[SessionMode(id=name, name=name) for name in MODES])

    @agent.prompt
    async def answer(turn: Turn) -> None:
        for step in json.loads(turn.text):
            try:
                outcome = await _do(turn, dict(step))
            except ProtocolError as error:
                outcome = error.kind
            await turn.say(f"{outcome}\n")

    return agent


async def _do(turn: Turn, step: dict[str, Any]) -> str:
    match step.pop("do"):
        case "ask":
            options = [PermissionOption(**option) for option in step.pop("options", ())] or None
            reason = step.pop("reason", None)
            call = ToolCallUpdate(
                tool_call_id=step.pop("id", "c1"),
                title=step.pop("title", "something"),
                locations=[ToolCallLocation(path=path) for path in step.pop("paths", ())] or UNSET,
                content=[Diff(**diff) for diff in step.pop("diffs", ())] or UNSET,
                meta={"dragoman": {"reason": reason}} if reason else UNSET,
                **step,
            )
            return (await turn.ask_permission("", tool=call, options=options)).kind
        case "read":
            return await turn.files.read(step["path"])
        case "write":
            await turn.files.write(step["path"], step["text"])
            return "written"
        case "run":
            more: dict[str, Any] = {name: step[name] for name in ("cwd", "env") if name in step}
            size = (24, 80) if step.get("interactive") else None
            ran = await turn.terminals.run(step["command"], step.get("args", ()), size=size, **more)
            return ran.output.strip()
        case "mode":
            return str(turn.session.mode)
    raise AssertionError(step)


class User:
    """The user: records the questions, and gives the prepared answers."""

    def __init__(self, *answers: PermissionChoice | None) -> None:
        self.asked: list[PermissionPrompt] = []
        self._answers = list(answers)

    def __call__(self, asked: PermissionPrompt) -> PermissionChoice | None:
        self.asked.append(asked)
        assert self._answers, f"nobody expected to be asked: {asked.lines}"
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class Scene:
    """A guarded session and its records."""

    def __init__(
        self, guard: Guard, agent: RemoteAgent, session: ClientSession, folder: Path, user: User, audit: AuditLog
    ) -> None:
        self.guard = guard
        self.agent = agent
        self.session = session
        self.folder = folder
        self.user = user
        self.audit = audit

    async def do(self, *steps: dict[str, Any]) -> list[str]:
        """Let the agent do things in one turn."""
        return (await self.session.ask(json.dumps(steps))).splitlines()

    async def do_one(self, **step: Any) -> str:
        """Let the agent do one thing."""
        (said,) = await self.do(step)
        return said

    def entries(self) -> list[dict[str, Any]]:
        """Return the audit log, which must be intact."""
        assert self.audit.verify().faults == []
        return list(self.audit.entries())


@asynccontextmanager
async def guarded(
    folder: Path,
    dialect: str = "v1",
    *answers: PermissionChoice | None,
    policy: Any = None,
    grants: GrantsFile | None = None,
    nobody: bool = False,
    **options: Any,
) -> AsyncIterator[Scene]:
    """Return our agent and our guarded client in one dialect, with a session in `folder`/w."""
    user = User(*answers)
    audit = AuditLog(str(folder / "audit.jsonl"), durable=False)
    kept = grants or GrantsFile(str(folder / "grants.json"))
    guard = Guard(policy or Policy(), grants=kept, audit=audit, ask=None if nobody else user, **options)
    work = folder / "w"
    work.mkdir(exist_ok=True)
    async with connect_in_memory(
        scripted_agent(dialect),
        dialect=dialect,
        permission=guard.request_permission,
        workspace=guard.workspace_access(),
    ) as agent:
        guard.set_agent(agent)
        yield Scene(guard, agent, await agent.open_session(str(work)), work, user, audit)
    await guard.close()
