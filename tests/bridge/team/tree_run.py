"""Many random reads and writes by three agents on one tree, some through terminals; then every write must be there.

A write adds a line of its own to what the agent last read, so an overwritten file is missing lines. As a program, it is
`make tree-run` (OPERATIONS, FILES, SEED); a short form is part of the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dragoman import Agent, ProtocolError, Team, TeamBounds, Turn
from dragoman.workspace.coordination import FileCoordinator

AGENTS = ("plan", "code", "review")

# Operations in one turn: leases are held until its end.
PER_TURN = 10

# How often each operation is chosen.
WEIGHTS = {"read": 4, "write": 4, "blind": 1, "many": 1, "append": 2}


class Attempt(NamedTuple):
    """One write: its line, its file, and why it was refused; "" if it was not."""

    line: str
    file: str
    refused: str = ""


class TreeRun:
    """The agents, their files and their log."""

    def __init__(self, folder: Path, files: int, seed: int) -> None:
        self.folder = folder
        self.log: list[Attempt] = []
        self.counts: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._paths = [str(folder / f"{number}.txt") for number in range(files)]
        for path in self._paths:
            Path(path).write_text("begin\n")

    def agent(self, name: str) -> Agent:
        """Return an agent that does the operations of its prompt."""
        agent, known = Agent(name), dict[str, str]()

        @agent.prompt
        async def work(turn: Turn) -> None:
            for kind, line, *paths in json.loads(turn.text):
                self.counts[kind] += 1
                await self._operate(turn, kind, line, paths, known)

        return agent

    async def _operate(self, turn: Turn, kind: str, line: str, paths: list[str], known: dict[str, str]) -> None:
        path = paths[0]
        if kind == "append":
            terminal = await turn.terminals.create("sh", ["-c", f"printf '%s\\n' {line} >> {path}"])
            code = await terminal.wait()
            await terminal.release()
            self.log.append(Attempt(line, path, "" if code == 0 else f"exit code {code}"))
            return
        for each in paths:
            if kind == "read" or each not in known:
                known[each] = await turn.files.read(each)
        if kind == "read":
            return
        if kind == "blind":  # write what was read long ago
            self._random.random()
        elif self._random.random() < 0.5:
            known[path] = await turn.files.read(path)
        texts = {each: f"{known[each]}{line}\n" for each in paths}
        try:
            if kind == "many":
                await turn.files.write_many(dict(texts))
            else:
                await turn.files.write(path, texts[path])
        except ProtocolError as error:
            self.log += [Attempt(line, each, error.message) for each in paths]
            if "was changed" in error.message or "was written" in error.message:
                known.pop(str((error.data or {}).get("path", path)), None)
            return
        known.update(texts)
        self.log += [Attempt(line, each) for each in paths]

    def operations(self, name: str, count: int) -> list[list[list[str]]]:
        """Return the operations of an agent, by turn."""
        kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        all_of = []
        for number in range(count):
            kind = self._random.choices(kinds, weights)[0]
            paths = self._random.sample(self._paths, 2 if kind == "many" else 1)
            all_of.append([kind, f"{name}-{number}", *paths])
        return [all_of[start : start + PER_TURN] for start in range(0, count, PER_TURN)]

    async def run(self, count: int, on_turn: Callable[[], None] = lambda: None) -> None:
        """Run the team."""
        agents = {name: self.agent(name) for name in AGENTS}
        coordinator = FileCoordinator(wait=0.5)
        options: Any = {"permission": "allow", "tools": False, "bounds": TeamBounds(turns=count)}
        async with Team(self.folder, agents, coordinator=coordinator, **options) as team:

            async def work(name: str) -> None:
                for turn in self.operations(name, count // len(AGENTS)):
                    await team.ask(name, json.dumps(turn))
                    on_turn()

            await asyncio.gather(*map(work, AGENTS))
            assert coordinator.leases() == []

    def faults(self) -> list[str]:
        """Return what is wrong: writes that are neither there nor refused, twice there, or there and refused."""
        lines = {path: Counter(Path(path).read_text().splitlines()) for path in self._paths}
        found = [
            f"{attempt.line} in {attempt.file}: {times} times, {attempt.refused or 'not refused'}"
            for attempt in self.log
            if (times := lines[attempt.file][attempt.line]) != (0 if attempt.refused else 1)
        ]
        known = {(attempt.file, attempt.line) for attempt in self.log}
        found += [
            f"{line} in {path}: nobody wrote it"
            for path, counted in lines.items()
            for line in counted
            if line != "begin" and (path, line) not in known
        ]
        left = [each.name for each in self.folder.iterdir() if each.name.startswith(".dragoman-")]
        reasons = ("was changed by", "is being changed by", "was written by", "has not read it")
        unclear = {
            each.refused for each in self.log if each.refused and not any(part in each.refused for part in reasons)
        }
        return [*found, *(f"left behind: {name}" for name in left), *(f"unclear: {reason}" for reason in unclear)]

    def summary(self) -> dict[str, Any]:
        """Return the figures of the run."""
        refused = Counter("lease" if "is being" in each.refused else "stale" for each in self.log if each.refused)
        written = sum(not each.refused for each in self.log)
        return {"operations": dict(self.counts), "writes": len(self.log), "written": written, "refused": dict(refused)}


def main() -> int:
    """Run it and print the figures and the faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=2000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dragoman-tree-") as folder:
        run = TreeRun(Path(folder), options.files, options.seed)
        asyncio.run(run.run(options.operations))
        faults = run.faults()
        print(json.dumps({"seed": options.seed, **run.summary(), "faults": len(faults)}))
        for fault in faults[:20]:
            print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
