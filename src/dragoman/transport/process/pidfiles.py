"""Records of spawned process trees, so that the next start can end what an earlier one left behind.

A tree is ended only if boot, pid and start time (or its token) prove that it is ours and that its owner is dead.
"""

from __future__ import annotations

import os

import msgspec

from dragoman.transport.process import process_tree


class PidRecord(msgspec.Struct, frozen=True):
    """One spawned tree and its owner."""

    token: str
    pid: int
    start: int
    owner: int
    owner_start: int
    boot: str
    command: list[str] = []


def pidfile_folder() -> str:
    """Return the folder of the records; the first record creates it with mode 0700."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # the XDG rule: a relative path counts as unset
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "dragoman", "run")


def write(token: str, pid: int, start: int, command: list[str]) -> None:
    """Record a tree of ours."""
    owner_pid = os.getpid()
    owner = process_tree.read_process_stat(owner_pid)
    record = PidRecord(token, pid, start, owner_pid, owner.start_time if owner else 0, _boot_id(), command[:1])
    try:
        os.makedirs(pidfile_folder(), mode=0o700, exist_ok=True)
        fd = os.open(_path(token), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(msgspec.json.encode(record))
    except OSError:
        pass


def remove(token: str) -> None:
    """Remove the record of a tree that is gone."""
    try:
        os.unlink(_path(token))
    except OSError:
        pass


def reap_orphans() -> list[int]:
    """End the trees of dead owners; return the pids that were ended."""
    try:
        names = os.listdir(pidfile_folder())
    except OSError:
        return []
    ended_pids: list[int] = []
    for name in names:
        token, dot, kind = name.partition(".")
        if (dot, kind) != (".", "json"):
            continue
        try:
            with open(_path(token), "rb") as file:
                record = msgspec.json.decode(file.read(), type=PidRecord)
        except (OSError, msgspec.MsgspecError):
            continue  # being written right now, or not ours
        if record.token != token or not record.token.isalnum():
            continue
        if record.boot and record.boot == _boot_id():  # without /proc nothing can be proved, so nothing is ended
            owner = process_tree.read_process_stat(record.owner)
            if owner is not None and owner.is_alive and owner.start_time == record.owner_start:
                continue
            ended_pids += process_tree.ProcessTree(record.pid, record.start, token).kill()
        remove(token)
    return ended_pids


def _path(token: str) -> str:
    return os.path.join(pidfile_folder(), f"{token}.json")


def _boot_id() -> str:
    """Return the id of the boot that start times count from."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
