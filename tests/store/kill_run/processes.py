"""The processes of a kill run: start the recorder, the client and the writer, read their reports, and kill.

For the runs with kills and with failing writes: wait for a report, kill a process, start it again, end the run and let
the recorder compare. Only this module knows the process ids.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import uuid
from collections.abc import Callable

import msgspec

from tests.store.kill_run.comparison import Findings
from tests.store.kill_run.paths import FILES, MARK, ROOT, command, processes, store_file

# Nothing on the stage takes longer, on a machine that is busy with other things too. Seconds.
TIMEOUT = 120.0

ROLES = ("agent", "client", "writer")

# How a life is called: by the role and a number. Agents are called after their client.
_LETTERS = {"client": "c", "writer": "w"}


class KillRun:
    """All processes of one run."""

    def __init__(self, folder: str) -> None:
        """`folder` has the logs; the recorder's files are elsewhere, because they must not run out of space."""
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.alive: dict[str, tuple[str, int]] = {}  # who plays a role now: name, process id
        self.began: set[str] = set()  # names of those in whose turns something happens
        self.refused: dict[str, int] = {}
        self._numbers = dict.fromkeys(_LETTERS, 0)
        self._players: dict[str, asyncio.subprocess.Process] = {}
        self._news = asyncio.Event()
        self._findings: asyncio.Future[Findings] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> KillRun:
        self._backstage = tempfile.TemporaryDirectory(prefix="kill-run-")
        address = os.path.join(self._backstage.name, "recorder")
        self._environment = {
            **os.environ,
            MARK: self.mark,
            "KILLING_RECORDER": address,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        }
        self._recorder = await self._started("recorder", address, output=asyncio.subprocess.PIPE)
        self._ready = asyncio.Event()
        self._listening = asyncio.create_task(self._listen())
        async with asyncio.timeout(TIMEOUT):
            await self._ready.wait()
            for role in _LETTERS:
                await self.start(role)
        return self

    async def __aexit__(self, *_: object) -> None:
        for player in (*self._players.values(), self._recorder):
            if player.returncode is None:
                player.kill()
            await player.wait()
        self._listening.cancel()
        self._backstage.cleanup()

    async def _started(self, module: str, *words: str, output: int | None = None) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *command(module, self.folder, *words),
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            env=self._environment,
            cwd=ROOT,
            limit=1 << 24,
        )

    async def _listen(self) -> None:
        assert self._recorder.stdout is not None
        while line := (await self._recorder.stdout.readline()).decode():
            what, _, rest = line.partition(" ")
            words = rest.split()
            match what.strip():
                case "ready":
                    self._ready.set()
                case "here":
                    self.alive[words[0]] = words[1], int(words[2])
                case "began":
                    self.began.add(words[0].partition(".")[0])
                case "refused":
                    self.refused[words[0]] = self.refused.get(words[0], 0) + 1
                case "findings":
                    self._findings.set_result(msgspec.json.decode(rest, type=Findings))
            self._news.set()

    # --- what the killer does ---------------------------------------------------------------------------------

    async def until(self, what: Callable[[], bool], sentence: str) -> None:
        """Wait for a report after which a condition holds."""
        try:
            async with asyncio.timeout(TIMEOUT):
                while not what():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"in {TIMEOUT:.0f} seconds {sentence} did not happen") from None

    async def start(self, role: str) -> None:
        """Start the process of a role again."""
        self._numbers[role] += 1
        self._players[role] = await self._started(role, f"{_LETTERS[role]}{self._numbers[role]}")

    def is_here(self, role: str) -> bool:
        """Return whether a role has a process that was not killed."""
        name = self.alive.get(role, ("", 0))[0]
        number = self._numbers["writer" if role == "writer" else "client"]
        return name.partition("-")[0][1:] == str(number)

    def has_begun(self, role: str) -> bool:
        """Return whether a role has a process that started a turn."""
        if role == "client":
            return self.is_here("client") and self.is_here("agent") and self.alive["agent"][0] in self.began
        return self.is_here(role) and self.alive[role][0] in self.began

    async def kill(self, role: str) -> bool:
        """Kill the process of a role with -9, and start another; return False if it had ended by itself."""
        name, pid = self.alive.pop(role)
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        try:
            if pid not in processes(self.mark):
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        await self._write(f"killed {role} {name}")
        if role in self._players:  # an agent is its client's, who starts another
            await self._players[role].wait()
            await self.start(role)
        return True

    async def _write(self, line: str) -> None:
        assert self._recorder.stdin is not None
        self._recorder.stdin.write(f"{line}\n".encode())
        await self._recorder.stdin.drain()

    # --- the end ----------------------------------------------------------------------------------------------

    async def end(self) -> Findings:
        """Let all processes end, load all sessions in new processes, compare, and count processes that are left."""
        faults: list[str] = []
        for role, player in self._players.items():
            faults += await self._ended(role, player)
        for file in FILES:
            if os.path.exists(f"{store_file(self.folder, file)}-wal"):
                faults.append(f"{file}-wal is left, though everybody ended")
        faults += await self._ended("a look", await self._started("client", "look", "--look"))
        await self._write("compare")
        async with asyncio.timeout(TIMEOUT):
            findings = await self._findings
            await self._recorder.wait()
            while (left := processes(self.mark)) and self._tries():  # noqa: ASYNC110  (nobody tells when they end)
                await asyncio.sleep(0.05)
        faults += [f"process {pid} is left: {words}" for pid, words in left.items()]
        findings.faults = faults + findings.faults
        return findings

    _left_tries = 100

    def _tries(self) -> bool:
        self._left_tries -= 1
        return self._left_tries > 0

    async def _ended(self, role: str, player: asyncio.subprocess.Process) -> list[str]:
        assert player.stdin is not None
        player.stdin.close()
        try:
            async with asyncio.timeout(TIMEOUT):
                status = await player.wait()
        except TimeoutError:
            player.kill()
            return [f"{role} does not end"]
        return [] if status == 0 else [f"{role} ended with {status}"]
