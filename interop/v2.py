"""`python -m interop.v2`: real peers of protocol version 2 with peers of v1 and of the draft, through `translate`.

Installs agents that answer version 2, and agents and clients of the three official SDKs. A v1 client and a draft client
use each agent; each client uses our agent, which speaks v1. Prints one line for each; writes docs/matrix_v2.md; exits
with 1 if one failed. `--only NAME` selects some (and writes no page).
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interop import loopback
from interop.cells import SENTENCE, WORD, WRITTEN, Failed, expect
from interop.counterparts import AGENTS, CODEX, CROW, PEERS, RUST_V2, Counterpart, Place
from interop.drive import MARK, leftovers
from interop.install import CACHE, NotInstalled, install, node, place
from interop.model.server import Model
from interop.page import Row, Verdict, markdown_table, table, unmet
from interop.run import environment, make_home, tell
from interop.v2_clients import PATIENCE, AnyClient, DraftClient, SeenTurn, Server, V1Client
from tests.interop.v2_turns import check_seen

PAGE = Path(__file__).parent.parent / "docs" / "matrix_v2.md"
TS_CLIENT = Path(__file__).parent.parent / "tests" / "interop" / "peers" / "ts_client_v2.mjs"
LOGS = CACHE / "logs-v2"
DRAGOMAN = [sys.executable, "-m", "dragoman"]
EVERYTHING = [*DRAGOMAN, "agent", "everything", "--dialect", "v1"]

TITLES = ("hello", "tool, allowed", "tool, refused", "cancel", "load")


def _no_servers(place: Place) -> list[Server]:
    return []


@dataclass(frozen=True)
class V2Agent:
    """An agent that answers version 2: MCP servers that it needs for its tools, and why it cannot be refused one."""

    counterpart: Counterpart
    servers: Callable[[Place], list[Server]] = _no_servers
    never_asks: str = ""


def _agent(name: str) -> Counterpart:
    return next(each for each in AGENTS if each.name == name)


def _crow_server(where: Place) -> list[Server]:
    return [{"name": "crow-mcp", "command": str(where.folder / "bin" / "crow-cli"), "args": ["mcp"], "env": []}]


V2_AGENTS = (
    V2Agent(_agent("typescript-sdk-v2")),
    V2Agent(_agent("python-sdk-v2")),
    V2Agent(RUST_V2),
    V2Agent(_agent("claude-agent-acp")),
    V2Agent(CODEX),
    V2Agent(CROW, _crow_server, never_asks="it never asks"),
)

# The client of each SDK, by the counterpart that brings the SDK.
V2_CLIENTS: dict[str, Callable[[Place], list[str]]] = {
    "typescript-sdk-v2": lambda place: ["node", str(TS_CLIENT)],
    "python-sdk-v2": lambda place: [place.python, str(PEERS / "sdk_client_v2.py")],
    "rust-sdk-v2": lambda place: [str(place.folder / "bin" / "sdk_client_v2")],
}

CLIENTS: dict[str, type[V1Client] | type[DraftClient]] = {"v1": V1Client, "draft": DraftClient}


class Story:
    """One client with one agent: each cell is a step, and a later one needs the session of the first."""

    def __init__(self, client: AnyClient, agent: V2Agent, where: Place, command: list[str], folder: Path) -> None:
        self._client = client
        self._agent = agent
        self._servers = agent.servers(where)
        self._command = command
        self._folder = folder
        self._session = ""

    def hello(self) -> str:
        """A session opens, and all streamed text arrives; the prompt does not come back."""
        self._client.start(self._command, self._folder)
        self._session = self._client.new(self._folder, self._servers)
        seen = self._client.prompt(self._session, f"[[say {SENTENCE} {WORD}]]")
        ends(seen)
        expect(SENTENCE in seen.text, f"the text was {seen.text[-200:]!r}")
        expect(not seen.repeated, f"the prompt came back: {seen.repeated}")
        return ""

    def allowed(self) -> str:
        """A tool asks, and writes the file."""
        path = self._folder / "allowed.txt"
        seen = self._client.prompt(self._session, f"[[write {path} {WRITTEN}]]", allow=True)
        ends(seen)
        expect(seen.asked or self._agent.never_asks, "the tool did not ask")
        expect("completed" in seen.statuses, f"the tool call has the states {seen.statuses}")
        expect(path.is_file(), f"permission was granted, but the file does not exist; it said {seen.text[-200:]!r}")
        expect(path.read_text().strip() == WRITTEN, f"the file contains {path.read_text()[:100]!r}")
        return self._agent.never_asks

    def refused(self) -> str:
        """A tool asks, is refused, and does not write the file."""
        path = self._folder / "refused.txt"
        seen = self._client.prompt(self._session, f"[[write {path} {WRITTEN}]]", allow=False)
        expect(seen.reason in ("end_turn", "cancelled"), f"stop reason {seen.reason}")
        expect(seen.asked, "the tool did not ask")
        expect(not path.exists(), "permission was refused, but the file exists")
        return str(seen.reason)

    def cancel(self) -> str:
        """A cancelled turn ends as cancelled, and the next one works."""
        ends(self._client.prompt(self._session, "[[slow 60]]", cancel=True), "cancelled")
        again = self._client.prompt(self._session, "[[say again]]")
        ends(again)
        expect("again" in again.text, f"the text after the cancel was {again.text[-200:]!r}")
        return ""

    def load(self) -> str:
        """Another process loads the session: its history is replayed, and the agent remembers it."""
        self._client.stop()
        self._client.start(self._command, self._folder)
        replayed = self._client.load(self._session, self._folder, self._servers)
        expect(any(WORD in text for text in replayed), f"the replay has the messages {replayed}"[:300])
        seen = self._client.prompt(self._session, "[[recall]]")
        ends(seen)
        expect(WORD in seen.text, f"the earlier message is missing; the text: {seen.text[-200:]!r}")
        return f"{len(replayed)} messages"

    def run(self) -> dict[str, Verdict]:
        """Run all cells; after one that failed with the connection, the others fail too."""
        cells = dict(zip(TITLES, (self.hello, self.allowed, self.refused, self.cancel, self.load), strict=True))
        if self._agent.never_asks:
            cells.pop("tool, refused")
        verdicts = {title: verdict_of(cell) for title, cell in cells.items()}
        if self._agent.never_asks:
            verdicts["tool, refused"] = Verdict("unadvertised", self._agent.never_asks)
        return verdicts


def ends(seen: SeenTurn, reason: str = "end_turn") -> None:
    """Check the stop reason."""
    expect(seen.reason == reason, f"stop reason {seen.reason}; it said {seen.text[-200:]!r}")


def verdict_of(cell: Callable[[], str]) -> Verdict:
    """Run a cell; whatever goes wrong is its failure, so that the others are run too."""
    begun = time.monotonic()
    try:
        verdict = Verdict("passed", cell())
    except (Failed, AssertionError, OSError, TimeoutError, LookupError, ValueError) as error:
        verdict = Verdict("failed", " ".join(f"{type(error).__name__}: {error}".split())[:400])
    verdict.seconds = time.monotonic() - begun
    return verdict


def judge_agent(agent: V2Agent, where: Place, home: Path, base: dict[str, str]) -> list[Row]:
    """A row for each client that uses the agent."""
    rows = []
    for name, kind in CLIENTS.items():
        folder = home / name / "work"
        folder.mkdir(parents=True)
        env = make_home(agent.counterpart, where, home / name, base)
        mark = f"{name}-{agent.counterpart.name}-{time.monotonic_ns()}"
        alone = ["env", "-i", *(f"{key}={value}" for key, value in {**env, MARK: mark}.items())]
        translate = ["env", f"{MARK}={mark}", *DRAGOMAN, "translate", "--agent-dialect", "v2", "--"]
        log = LOGS / agent.counterpart.name / name
        log.mkdir(parents=True, exist_ok=True)
        client = kind(log)
        try:
            command = [*translate, *alone, *agent.counterpart.command(where)]
            row = Row(row_name(agent.counterpart), name, Story(client, agent, where, command, folder).run())
            client.stop()
        finally:
            client.close()
        if left := leftovers(mark):
            row.cells["load"] = Verdict("failed", f"left running: {'; '.join(left)}"[:300])
        rows.append(row)
    return rows


def row_name(counterpart: Counterpart) -> str:
    """The name of a row."""
    return f"{counterpart.name} {counterpart.version}"


def judge_client(counterpart: Counterpart, where: Place, home: Path, base: dict[str, str]) -> Row:
    """The row of a client: it goes through all turns with our v1 agent, and prints what it saw."""
    folder = home / "client"
    folder.mkdir(parents=True)
    command = [*V2_CLIENTS[counterpart.name](where), str(folder), *DRAGOMAN, "translate", "--", *EVERYTHING]
    env = {**base, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}

    def run() -> str:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=env)
        expect(ended.returncode == 0, f"exit code {ended.returncode}: {ended.stderr[-300:]}")
        check_seen(json.loads(ended.stdout), folder)
        return ""

    verdict = verdict_of(run)
    return Row(row_name(counterpart), "v2", dict.fromkeys(TITLES, verdict))


def main() -> int:
    """Install and run everything, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m interop.v2", description=__doc__)
    names = [agent.counterpart.name for agent in V2_AGENTS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    options = parser.parse_args()
    chosen = [agent for agent in V2_AGENTS if not options.only or agent.counterpart.name in options.only]
    try:
        bin = node(tell)
    except NotInstalled as error:
        tell(f"node: {error}; put node 22.19 or newer, with npm, on PATH")
        return 1
    missing = install([agent.counterpart for agent in chosen], bin, tell)
    alone = loopback.enter()
    base = environment(bin, alone)
    shutil.rmtree(LOGS, ignore_errors=True)
    agents: list[Row] = []
    clients: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="interop-") as temporary, Model() as model:
        for agent in chosen:
            name = agent.counterpart.name
            if name in missing:
                agents += [Row(row_name(agent.counterpart), client, {}, missing[name]) for client in CLIENTS]
                continue
            where, home = Place(place(agent.counterpart), model.url(name)), Path(temporary) / name
            rows = judge_agent(agent, where, home, base)
            clients += [judge_client(agent.counterpart, where, home, base)] if name in V2_CLIENTS else []
            agents += rows
            for row in [*rows, *clients[len(clients) - (name in V2_CLIENTS) :]]:
                for title, verdict in row.cells.items():
                    tell(f"{name:18} {row.version:6} {title:14} {verdict.progress_line}")
    tell("")
    tell(table(agents, TITLES))
    tell("")
    tell(table(clients, TITLES))
    if not options.only:
        PAGE.write_text(page(agents, clients))
        tell(f"\nwritten: {PAGE}; what the agents printed: {LOGS}")
    return 0 if all(row.passes for row in [*agents, *clients]) else 1


def page(agents: list[Row], clients: list[Row]) -> str:
    """The text of the page."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    parts = [
        "# Real peers of version 2",
        "",
        "Written by `make interop`; do not edit.",
        "",
        "`dragoman translate` stands between the two. The v1 client is that of the official Python SDK; the client of",
        "the draft is written by hand. Agents run with a home of their own, on loopback, with a fake model. A cell",
        "passes only if the turn ends as expected and no process is left. The checks are in",
        "[interop/v2.py](../interop/v2.py).",
        "",
        f"Run on {today}: {sum(row.passes for row in agents)} of {len(agents)} pairs with agents and",
        f"{sum(row.passes for row in clients)} of {len(clients)} with clients pass every cell.",
        "",
        "## Agents of version 2, used by clients of v1 and the draft",
        "",
        *markdown_table(agents, TITLES, "client"),
        "",
        "✓ passed, ✗ failed, – not possible with this agent.",
        "",
        "## Clients of version 2, using `dragoman agent everything --dialect v1`",
        "",
        *markdown_table(clients, TITLES, "client"),
        "",
    ]
    if failures := unmet([*agents, *clients]):
        parts += ["## What failed", "", *failures, ""]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
