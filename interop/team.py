"""`python -m interop.team`: two real agents of a team write the files of one repository; none overwrites the other.

Both get a prompt to write the same new file at the same time, round after round. Each write must be in the tree or
have been refused with a reason, by the log of the team. Exits 0 only then.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dragoman import Team
from dragoman.config.config_file import NamedAgent
from dragoman.workspace.coordination import FileCoordinator
from interop import loopback
from interop.cells import WRITTEN
from interop.counterparts import ALL, Place
from interop.install import CACHE, install, node, place
from interop.model.server import Model
from interop.run import environment, make_home, tell

# Agents that write only through the files of the client (docs/matrix.md). opencode writes a file itself, too, even if
# the client has refused it, so it is not one of them (docs/teams.md#files).
AGENTS = ("gemini-cli", "qwen-code")

ROUNDS = 6

# How long one turn of a real agent may take on a busy machine. Seconds.
TURN_TIMEOUT = 150.0


async def run(folder: Path, agents: dict[str, NamedAgent]) -> list[str]:
    """Run the rounds; return what went wrong."""
    faults: list[str] = []
    tried: set[str] = set()  # an agent may refuse by itself to overwrite what another one has just written
    coordinator = FileCoordinator()
    async with Team(folder, agents, permission="allow", tools=False, coordinator=coordinator) as team:
        for number in range(ROUNDS):
            path = folder / f"{number}.txt"  # new: some agents do not overwrite a file that they have not read
            before = len(team.log.events)
            prompts = {name: f"[[write {path} {WRITTEN} by {name} in round {number}]]" for name in agents}
            async with asyncio.timeout(2 * TURN_TIMEOUT):
                await asyncio.gather(*(team.ask(name, text, timeout=TURN_TIMEOUT) for name, text in prompts.items()))
            team.note_files()
            events = [event for event in team.log.events[before:] if event.path == str(path)]
            wrote = [event.agent for event in events if event.kind == "wrote"]
            refused = {event.agent: event.text for event in events if event.kind == "refused"}
            text = path.read_text().strip() if path.exists() else ""
            tell(f"round {number}: wrote {', '.join(wrote) or 'nobody'}; refused {', '.join(refused) or 'nobody'}")
            tried |= {*wrote, *refused}
            if not wrote:
                faults.append(f"round {number}: nobody wrote")
            if wrote and text != f"{WRITTEN} by {wrote[-1]} in round {number}":
                faults.append(f"round {number}: the last write, of {wrote[-1]}, is not in the tree: {text!r}")
            faults += [
                f"round {number}: no name in {reason!r}"
                for reason in refused.values()
                if " by " not in reason and "has not read" not in reason
            ]
    return faults + [f"{name} never tried to write" for name in agents if name not in tried]


def main() -> int:
    """Install the agents, run them, and say how it went."""
    chosen = [counterpart for counterpart in ALL if counterpart.name in AGENTS]
    bin = node(tell)
    if missing := install(chosen, bin, tell):
        tell(f"not installed: {missing}")
        return 1
    alone = loopback.enter()
    base, logs = environment(bin, alone), CACHE / "logs" / "team"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="interop-team-") as temporary, Model(logs) as model:
        repository = Path(temporary) / "repository"
        repository.mkdir()
        subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
        agents = {}
        for counterpart in chosen:
            where = Place(place(counterpart), model.url(counterpart.name))
            env = make_home(counterpart, where, Path(temporary) / counterpart.name, base)
            command, *args = counterpart.command(where)
            agents[counterpart.name] = NamedAgent(name=counterpart.name, command=command, args=tuple(args), env=env)
        faults = asyncio.run(run(repository, agents))
    for fault in faults:
        tell(fault)
    tell(f"{ROUNDS} rounds of {len(agents)} agents, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
