"""Bubblewrap: a command in a file system of its own, made of what it may read and write.

Where the kernel has no Landlock, or Landlock cannot say what is wanted. Takes paths and an environment, gives the
arguments (pure); `find` tells whether it is installed and works. The launcher executes it; knows no Sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache

from dragoman.transport.sandbox.system_paths import way_through

PROGRAM = "bwrap"

# Setting up namespaces takes milliseconds; a machine that needs longer has other troubles. Seconds.
PROBE_TIMEOUT = 10.0

# Namespaces of its own for processes, shared memory and host name; whoever started it takes it along.
_NAMESPACE_OPTIONS = ("--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")

# What is left of root's power: files of other users in the folders it was given. Bubblewrap drops all else.
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
    """The options, without the program: `links` are those of the paths that are links, and where they lead."""
    words = [*_NAMESPACE_OPTIONS, *([] if has_network else ["--unshare-net"]), "--cap-drop", "ALL"]
    if is_root:
        words += [word for name in ROOT_CAPABILITIES for word in ("--cap-add", name)]
    # Root could write /proc/sys without any capability, and name a program there that runs outside (core_pattern).
    words += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in (*system, *read):
        words += ["--symlink", links[path], path] if path in links else ["--ro-bind-try", path, path]
    for path in write:
        words += ["--bind", path, path]
    words.append("--clearenv")  # bubblewrap itself starts with nothing of it: it is not confined yet
    for name, value in environ.items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", cwd]


def find_bubblewrap(write: Sequence[str] = ()) -> tuple[str | None, str]:
    """Where bubblewrap is, and if it is of no use here: why. Not in folders that agents write: it starts outside."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, PROGRAM)
        if os.path.isabs(folder) and os.access(path, os.X_OK) and not way_through(path, write):
            return _tried(path)
    return None, "bubblewrap (bwrap) is not installed"


@cache
def _tried(path: str) -> tuple[str | None, str]:
    """The same path if it works, or why it does not."""
    import subprocess

    trial = [
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
        ended = subprocess.run(
            trial, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_TIMEOUT, env={}, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"bubblewrap does not work here ({type(error).__name__})"
    if ended.returncode == 0:
        return path, ""
    said = ended.stderr.decode("utf-8", "replace").strip().split("\n")[0][:200]
    return None, f"bubblewrap does not work here ({said or ended.returncode})"
