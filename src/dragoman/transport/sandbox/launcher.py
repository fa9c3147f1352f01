"""The launcher: a small program that restricts itself as planned, then executes the command.

It starts with an empty environment and the plan on a descriptor, since what an agent chooses (LD_PRELOAD) must not run
before the restrictions apply. It is its own program, since nothing may run between fork and exec of a process with
threads. Standard library only. Prints errors to stderr and exits like a shell.
"""

from __future__ import annotations

import base64
import ctypes
import errno
import json
import os
import resource
import struct
import sys
from typing import Any

from dragoman.transport.sandbox import landlock, seccomp

CANNOT, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127

_ADVICE = "; if it is installed in a folder of yours, name that with --sandbox-read DIR"

# prctl and capset(2), and what root keeps: the use of files of other users. Not among them: raising limits, making
# devices, mounting, tracing, opening files by handle.
_DROP_FROM_BOUND, _AMBIENT, _CLEAR_ALL = 24, 47, 4
_CAPABILITIES_VERSION = 0x20080522
_KEPT_CAPABILITIES = (1 << 0) | (1 << 1) | (1 << 3) | (1 << 4)  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID
_LAST_CAPABILITY = 40


def main(fd: int) -> None:
    """Read the plan, restrict this process, execute the command."""
    with open(fd, "rb") as file:
        plan: dict[str, Any] = json.loads(file.read())
    name = plan["argv"][0]
    if plan["outside"]:
        exit_with_error(NOT_EXECUTABLE, f"{name} cannot be executed: it is outside of the sandbox{_ADVICE}")
    try:
        apply_limits(plan["limits"])
        if plan["bubblewrap"] is not None:
            exec_bubblewrap(plan)
        drop_capabilities()
        landlock.restrict(plan["abi"], [(path, rights) for path, rights in plan["rules"]], plan["ports"])
        if plan["filter"]:
            seccomp.install_filter(base64.b64decode(plan["filter"]))
    except OSError as error:
        exit_with_error(CANNOT, f"the sandbox for {name} could not be made: {error.strerror}")
    try:
        os.execve(plan["program"], plan["argv"], plan["env"])
    except FileNotFoundError:
        exit_with_error(NOT_FOUND, f"{name} or the interpreter in its first line was not found")
    except OSError as error:
        advice = _ADVICE if error.errno == errno.EACCES else ""
        exit_with_error(NOT_EXECUTABLE, f"{name} cannot be executed: {error.strerror}{advice}")


def apply_limits(limits: list[tuple[str, int]]) -> None:
    """Lower the resource limits; never raise one."""
    for name, value in limits:
        resource_id = getattr(resource, name, None)
        if resource_id is None:
            continue
        hard = resource.getrlimit(resource_id)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(resource_id, (value, value))


def exec_bubblewrap(plan: dict[str, Any]) -> None:
    """Execute bubblewrap; its arguments go through a descriptor, since everybody can see a command line."""
    for path in plan["folders"]:
        if os.path.realpath(path) != path:  # replaced by a link
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    argv = [plan["bubblewrap"]]
    options = list(plan["options"])
    if plan["filter"]:
        options += ["--seccomp", str(_memory_file("filter", base64.b64decode(plan["filter"])))]
    arguments = b"".join(os.fsencode(option) + b"\0" for option in options)
    argv += ["--args", str(_memory_file("arguments", arguments)), "--", plan["program"], *plan["argv"][1:]]
    os.execve(plan["bubblewrap"], argv, {})


def drop_capabilities() -> None:
    """Keep only root's capabilities for files; other users have none to lose."""
    libc = ctypes.CDLL(None, use_errno=True)
    zeros = [ctypes.c_ulong(0)] * 2
    libc.prctl(_AMBIENT, ctypes.c_ulong(_CLEAR_ALL), *zeros, ctypes.c_ulong(0))
    for capability in range(_LAST_CAPABILITY + 1):
        if not _KEPT_CAPABILITIES >> capability & 1:
            libc.prctl(_DROP_FROM_BOUND, ctypes.c_ulong(capability), *zeros, ctypes.c_ulong(0))
    head = struct.pack("=Ii", _CAPABILITIES_VERSION, 0)
    current = ctypes.create_string_buffer(24)
    if libc.capget(head, current) != 0:
        return
    sets = struct.unpack("=6I", current.raw)
    kept = struct.pack("=6I", sets[0] & _KEPT_CAPABILITIES, sets[1] & _KEPT_CAPABILITIES, 0, 0, 0, 0)
    if libc.capset(head, kept) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def exit_with_error(code: int, text: str) -> None:
    """Print an error and exit."""
    os.write(2, f"dragoman: {text}\n".encode("utf-8", "replace"))
    os._exit(code)


def _memory_file(name: str, data: bytes) -> int:
    fd = os.memfd_create(name, 0)  # bubblewrap reads it after its start
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


if __name__ == "__main__":
    main(int(sys.argv[1]))
