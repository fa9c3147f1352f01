"""Bubblewrap: run a command in its own file system, made of what it may read and write.

Used where the kernel has no Landlock, or Landlock cannot enforce the sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache

from dragoman.transport.sandbox.system_paths import traversed_folder

PROGRAM = "bwrap"

# Creating namespaces takes milliseconds; this is a generous limit. Seconds.
PROBE_TIMEOUT = 10.0

# Its own namespaces for processes, shared memory and host name; it ends with its parent.
_NAMESPACE_OPTIONS = ("--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")

# What root keeps: access to files of other users in the granted folders. Bubblewrap drops everything else.
ROOT_CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")


def build_arguments(
    *,
    system: Sequence[str],
    read: Sequence[str],
    write: Sequence[str],
    environ: Mapping[str, str],
    cwd: str,
    links: Mapping[str, str],
    has_network: bool,
    is_root: bool,
) -> list[str]:
    """Return the options, without the program: `links` maps those paths that are links to their targets."""
    arguments = [*_NAMESPACE_OPTIONS, *([] if has_network else ["--unshare-net"]), "--cap-drop", "ALL"]
    if is_root:
        arguments += [argument for name in ROOT_CAPABILITIES for argument in ("--cap-add", name)]
    # Root could write /proc/sys without any capability, and name a program there that runs outside (core_pattern).
    arguments += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in (*system, *read):
        arguments += ["--symlink", links[path], path] if path in links else ["--ro-bind-try", path, path]
    for path in write:
        arguments += ["--bind", path, path]
    arguments.append("--clearenv")  # bubblewrap itself starts with an empty environment: it is not confined yet
    for name, value in environ.items():
        arguments += ["--setenv", name, value]
    return [*arguments, "--chdir", cwd]


def find_bubblewrap(write: Sequence[str] = ()) -> tuple[str | None, str]:
    """Return the path of bubblewrap, or why it cannot be used. Not from folders that agents can write: it starts
    unconfined.
    """
    for folder in os.get_exec_path():
        path = os.path.join(folder, PROGRAM)
        if os.path.isabs(folder) and os.access(path, os.X_OK) and not traversed_folder(path, write):
            return _check_works(path)
    return None, "bubblewrap (bwrap) is not installed"


@cache
def _check_works(path: str) -> tuple[str | None, str]:
    """Return the path if it works, or why it does not."""
    import subprocess

    command = [
        path,
        *_NAMESPACE_OPTIONS,
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--",
        "/bin/sh",
        "-c",
        ":",
    ]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_TIMEOUT, env={}, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"bubblewrap does not work here ({type(error).__name__})"
    if result.returncode == 0:
        return path, ""
    reason = result.stderr.decode("utf-8", "replace").strip().split("\n")[0][:200]
    return None, f"bubblewrap does not work here ({reason or result.returncode})"
