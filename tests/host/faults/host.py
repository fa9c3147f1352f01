"""The host of a fault run: `dragoman serve`, killed with -9 and started again on the same store."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from tests.store.kill_run.paths import MARK, ROOT, processes

# Timeout for everything here, on a busy machine. Seconds.
TIMEOUT = 60.0

AGENTS = ("forgets", "keeps")  # the first is at /acp
_AGENT = "tests.host.faults.agent"

# A client that does not read is disconnected after this many bytes, so that every run has some.
BUFFERED = 128 * 1024


class Host:
    """One store, and the process that serves it now."""

    def __init__(self, folder: Path, limits: Mapping[str, float] | None = None, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self.store = str(folder / "sessions.db")
        self.mark = uuid.uuid4().hex
        self.port = 0
        self.starts = 0
        self.idle_descriptors = 0  # of an idle host
        self._limits = {"buffered": BUFFERED, "connections": 1000, **(limits or {})}
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        self._log = folder / "host.err"

    def configure(self) -> None:
        """Write the agents to the configuration."""
        lines = []
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        for name in AGENTS:
            words = ["-m", _AGENT, *([str(self.folder / "agent.db")] if name == "keeps" else [])]
            lines += [f"[agents.{name}]", f"command = {_quoted(sys.executable)}"]
            lines += [f"args = [{', '.join(map(_quoted, words))}]", f"env = {{ PYTHONPATH = {_quoted(path)} }}"]
        lines += ["[host]", f"agents = [{', '.join(map(_quoted, AGENTS))}]", "[host.limits]"]
        lines += [f"{name} = {value}" for name, value in self._limits.items()]
        place = self.folder / "config" / "dragoman"
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.toml").write_text("\n".join(lines) + "\n")

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of every process of the run."""
        places = {f"XDG_{name.upper()}_HOME": str(self.folder / name) for name in ("config", "state", "data")}
        return {**os.environ, **places, "HOME": str(self.folder), MARK: self.mark}

    async def start(self) -> None:
        """Serve the store."""
        self.configure()
        self.starts += 1
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "dragoman", "serve"),
                *("--json", "--bind", "127.0.0.1:0", "--store", self.store, *self._options),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self.environment,
                cwd=self.folder,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT):
            line = await self._process.stdout.readline()
        assert line, f"the host did not start: {self.stderr_tail()}"
        self.port = urlsplit(msgspec.json.decode(line)["url"]).port or 0
        self.idle_descriptors = self.descriptors

    def stderr_tail(self) -> str:
        """Return the last lines of its stderr."""
        return self._log.read_text(errors="replace")[-2000:]

    @property
    def descriptors(self) -> int:
        """Return how many descriptors it has open."""
        assert self._process is not None
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    @property
    def resident(self) -> int:
        """Return its memory in bytes."""
        assert self._process is not None
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")

    @property
    def agents(self) -> list[int]:
        """Return the running agents."""
        return sorted(pid for pid, words in processes(self.mark).items() if _AGENT in words.split()[:3])

    def kill_agent(self, dice: random.Random) -> bool:
        """Kill one of them with -9."""
        agents = self.agents
        if not agents:
            return False
        with suppress(ProcessLookupError):
            os.kill(dice.choice(agents), signal.SIGKILL)
            return True
        return False

    async def kill(self) -> None:
        """Kill the host with -9."""
        assert self._process is not None
        self._process.kill()
        async with asyncio.timeout(TIMEOUT):
            await self._process.wait()

    async def end(self) -> list[str]:
        """Stop the agents and the host in the normal way. Return what is left behind."""
        assert self._process is not None
        faults = []
        if self._process.returncode is not None:
            return [f"the host ended by itself, with {self._process.returncode}: {self.stderr_tail()}"]
        for pid in self.agents:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not await becomes_true(lambda: self.descriptors <= self.idle_descriptors + WARDEN):
            left = [os.readlink(each) for each in Path(f"/proc/{self._process.pid}/fd").iterdir() if each.is_symlink()]
            faults.append(f"the host has {self.descriptors} descriptors, and had {self.idle_descriptors}: {left}")
        self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(TIMEOUT):
                status = await self._process.wait()
        except TimeoutError:
            self._process.kill()
            return [*faults, "the host does not end by SIGTERM"]
        if status != 0:
            faults.append(f"the host ended with {status}: {self.stderr_tail()}")
        if os.path.exists(f"{self.store}-wal"):
            faults.append("the store was not closed: its -wal is left")
        await becomes_true(lambda: not processes(self.mark))
        faults += [f"process {pid} is left: {words}" for pid, words in processes(self.mark).items()]
        return faults

    async def abandon(self) -> None:
        """Kill everything that still runs."""
        if self._process is not None and self._process.returncode is None:
            await self.kill()
        for pid in processes(self.mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


# A host that started an agent has a pipe to the watchdog, which outlives it and kills what it leaves
# (transport/process/watchdog.py).
WARDEN = 1

# How long a stopped process may take to release everything. Seconds.
SOON = 10.0


async def becomes_true(is_so: Callable[[], object]) -> bool:
    """Poll until a condition is true. Return False after the timeout."""
    deadline = asyncio.get_running_loop().time() + SOON
    while not is_so():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
