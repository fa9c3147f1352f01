"""What a guard costs: `guarding SPECIFICATION` prints figures for the policy, the audit log, or files over stdio.

Started as `guarding --agent`, it is the agent that reads and writes the client's files and tells how long that took.
"""

import asyncio
import json
import sys
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from dragoman import Agent, Turn, WorkspaceAccess, connect
from dragoman.config.paths import user_paths
from dragoman.ids import now
from dragoman.policy.decide import Policy, decide
from dragoman.policy.decision import ALLOW
from dragoman.policy.grants import build_grant
from dragoman.policy.parse import parse_rule_file
from dragoman.policy.question import Question
from dragoman.policy.redaction import Redactor
from dragoman.roles.client.permission.audit_writer import AuditWriter
from dragoman.roles.client.permission.guard import Guard
from dragoman.store.audit import AuditEntry, AuditLog
from dragoman.workspace.coordination import FileCoordinator
from dragoman.workspace.tree_member import TreeMember

Figures = dict[str, float]

POLICY = Path("docs", "policy.toml")
TEXT = "".join(f"line {number} of a file that an agent reads\n" for number in range(100))
WARM = 50
PAIRS = 7  # of runs with and without coordination
# Rules that let the agent work without anybody being asked, after others that do not match.
RULES = POLICY.read_text() + '\n[[rule]]\ndecision = "allow"\noperation = "file_write"\n'

QUESTIONS = [
    Question(operation=operation, resource=resource, agent="coder", roots=("/w",), **more)  # type: ignore[arg-type]
    for operation, resource, more in (
        ("file_read", "/w/src/main.py", {}),
        ("file_read", "/w/deep/below/.env", {}),
        ("file_write", "/w/src/package/module.py", {}),
        ("file_write", "/w/README.md", {}),
        ("terminal_execute", "git status --short && git diff", {}),
        ("terminal_execute", "npm run test:unit", {}),
        ("terminal_execute", "cat x | sort > y", {}),
        ("network_access", "https://docs.python.org/3/library/asyncio.html", {}),
        ("mcp_tool", "", {"server": "docs", "tool": "search_pages"}),
        ("other", "", {"title": "Think"}),
    )
]


def decisions(count: int) -> Figures:
    """How many questions policy decides in a second."""
    policy = Policy(
        files=(parse_rule_file(POLICY.read_text(), "policy.toml", home="/home/me"),), protected=("/w/.dragoman",)
    )
    grants = [
        grant for q in QUESTIONS[3:8] if (grant := build_grant(q, ALLOW, "workspace", id="g", now=0.0)) is not None
    ]
    for question in QUESTIONS:
        decide(policy, question, grants[:4])
    started = perf_counter()
    for question in islice(cycle(QUESTIONS), count):
        decide(policy, question, grants[:4], now=1.0)
    return {"per_second": count / (perf_counter() - started)}


async def audit(count: int, folder: Path) -> Figures:
    """What one entry costs whoever waits for it."""

    async def each(durable: bool) -> float:
        journal = AuditWriter(AuditLog(str(folder / f"{durable}.jsonl")), Redactor(["a-known-secret-value"]))
        took = []
        for number in range(count):
            entry = AuditEntry(
                who="coder",
                what="decided",
                time=now(),
                operation="file_write",
                resource=f"/w/src/module_{number}.py",
                decision="allow",
                reason="rule 4 of policy.toml, line 27",
                session="sess_1",
                workspace="/w",
                mode="default",
                detail={"source": "rule"},
            )
            started = perf_counter()
            await journal.write(entry, durable=durable)
            took.append(perf_counter() - started)
        return median(took) * 1e6

    return {"durable_us": await each(True), "written_us": await each(False)}


async def files(count: int, folder: Path) -> Figures:
    """What a read and a write take, as the agent sees it: without a guard, and with one."""
    work = folder / "work"
    work.mkdir()
    (work / "a.txt").write_text(TEXT)
    own = folder / "config" / "dragoman"
    own.mkdir(parents=True)
    (own / "policy.toml").write_text(RULES)
    environ = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    guard = Guard.for_user(user_paths(environ), environ=environ, roots=[str(work)])
    free = await _talk(WorkspaceAccess(), "deny", count, work, None)
    guarded = await _talk(guard.workspace_access(), guard.request_permission, count, work, guard)
    await guard.close()
    return free | {f"guarded_{name}": value for name, value in guarded.items()}


async def coordination(count: int, folder: Path) -> Figures:
    """What a lease and a compare add to each guarded write where two sessions use a tree, in alternating pairs."""
    work = folder / "work"
    work.mkdir()
    (work / "a.txt").write_text(TEXT)
    own = folder / "config" / "dragoman"
    own.mkdir(parents=True)
    (own / "policy.toml").write_text(RULES)
    environ = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    guard = Guard.for_user(user_paths(environ), environ=environ, roots=[str(work)])
    took: dict[bool, list[float]] = {False: [], True: []}
    cpu: dict[bool, list[float]] = {False: [], True: []}
    count = max(1, count // 4)
    for is_coordinated in (False, True) * PAIRS:
        coordinator = FileCoordinator()
        coordinator.join(TreeMember(lambda: "another agent", [str(work.resolve())]))
        workspace = guard.workspace_access(coordinate=is_coordinated, coordinator=coordinator)
        (work / "a.txt").write_text(TEXT)
        started = process_time()
        figures = await _talk(workspace, guard.request_permission, count, work, guard)
        cpu[is_coordinated].append((process_time() - started) / count * 1e6)
        took[is_coordinated].append(figures["write_us"])
    await guard.close()
    plain, coordinated = median(took[False]), median(took[True])
    return {
        "plain_us": plain,
        "coordinated_us": coordinated,
        "added_ratio": max(0.0, coordinated / plain - 1.0),
        "added_cpu_us": median(cpu[True]) - median(cpu[False]),  # of a read and a write
        "plain_cpu_us": median(cpu[False]),
    }


async def _talk(workspace: WorkspaceAccess, permission: Any, count: int, work: Path, guard: Guard | None) -> Figures:
    command = [sys.executable, "-m", "bench.peers.guarding", "--agent"]
    async with connect(command, workspace=workspace, permission=permission) as agent:
        if guard is not None:
            guard.set_agent(agent)
        session = await agent.open_session(str(work))
        await session.ask(f"{WARM} {work / 'a.txt'}")
        figures: Figures = json.loads(await session.ask(f"{count} {work / 'a.txt'}"))
    if (work / "a.txt").read_text() != f"{TEXT}{count - 1}":
        raise ValueError("the file does not hold what was written last")
    return figures


def serve() -> None:
    """Be the agent: COUNT PATH in a prompt, figures in the answer."""
    agent = Agent("filing")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        count, path = turn.text.split(maxsplit=1)
        reads, writes = [], []
        for number in range(int(count)):
            started = perf_counter()
            text = await turn.files.read(path)
            reads.append(perf_counter() - started)
            if not text.startswith(TEXT):
                raise ValueError(f"read {number}: unexpected text")
            started = perf_counter()
            await turn.files.write(path, f"{TEXT}{number}")
            writes.append(perf_counter() - started)
        await turn.say(json.dumps({"read_us": median(reads) * 1e6, "write_us": median(writes) * 1e6}))

    agent.run()


async def main() -> None:
    """Do the work, print the figures."""
    specification = json.loads(sys.argv[1])
    count, folder = int(specification["count"]), Path(specification["cwd"])
    match specification["work"]:
        case "decisions":
            figures = decisions(count)
        case "audit":
            figures = await audit(count, folder)
        case "coordination":
            figures = await coordination(count, folder)
        case _:
            figures = await files(count, folder)
    print(json.dumps(figures))


if __name__ == "__main__":
    if sys.argv[1:] == ["--agent"]:
        serve()
    else:
        asyncio.run(main())
