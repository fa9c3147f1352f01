"""Detect whether a local socket may belong to a sandboxed process, which has its user's id but not all rights.

Landlock, seccomp without privileges and bubblewrap all set "no new privileges", which every descendant keeps forever.
Takes the inode of a socket, reads /proc.
"""

from __future__ import annotations

import os

_PROCESSES = "/proc"


def may_be_confined(inode: str, uid: int) -> bool:
    """Whether a confined process of this user may hold the socket: one runs, and no other process is seen to hold it.

    A confined process can hide its open files, so those are not checked. False if we are confined ourselves, which then
    says nothing about others.
    """
    if _is_confined("self", uid):
        return False
    pids = [name for name in os.listdir(_PROCESSES) if name.isdigit()]
    # One that exited meanwhile (None) may have left the socket to a child that is not in the list.
    if all(_is_confined(pid, uid) is False for pid in pids):
        return False
    # In this order: a process that is not confined now was not confined when it held the socket.
    return not any(_holds(pid, f"socket:[{inode}]") and _is_confined(pid, uid) is False for pid in pids)


def _is_confined(pid: str, uid: int) -> bool | None:
    """Whether this is a confined process of the user; None if it exited."""
    try:
        with open(f"{_PROCESSES}/{pid}/status", encoding="utf-8", errors="replace") as file:
            fields = dict(line.partition(":")[::2] for line in file)
    except OSError:
        return None
    return fields.get("NoNewPrivs", "").strip() == "1" and str(uid) in fields.get("Uid", "").split()


def _holds(pid: str, target: str) -> bool:
    """Whether a process has this open, as far as we may see."""
    folder = f"{_PROCESSES}/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}") == target:
                return True
        except OSError:  # closed meanwhile
            continue
    return False
