"""What a sandboxed command may use: folders, network, environment, resource limits.

Values and pure functions; plan.py decides how it is enforced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

# HTTPS only: an agent must reach its model and packages, but no database, mail server or ssh port of the user. DNS over
# UDP is not affected.
DEFAULT_NET = "443"

AUTO, LANDLOCK, BUBBLEWRAP = "auto", "landlock", "bubblewrap"
MECHANISMS = (AUTO, LANDLOCK, BUBBLEWRAP)

# All processes and threads of the user together, as the system counts them: far above what builds start. A fork bomb
# ends here, while the user, who has no such limit, can still start a shell. Root is never limited by it.
MAX_PROCESSES = 4096

# Bundlers that watch whole trees open a few thousand.
MAX_OPEN_FILES = 16384

# Larger than what is built or downloaded; a runaway log ends before the disk is full. Bytes.
MAX_FILE_SIZE = 16 * 1024**3

# A core dump of an agent contains its credentials.
MAX_CORE_SIZE = 0

# Names that tell a program how to print and where programs are, and nothing about the user. Proxies are missing, since
# their addresses hold passwords; the user names what an agent needs beyond these.
KEPT_VARIABLES = frozenset(
    {
        "COLORFGBG", "COLORTERM", "COLUMNS", "LANG", "LANGUAGE", "LINES", "LOGNAME", "NODE_EXTRA_CA_CERTS", "NO_COLOR",
        "PATH", "REQUESTS_CA_BUNDLE", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TERM", "TZ", "USER",
    }
)  # fmt: skip
_KEPT_VARIABLE_PREFIX = "LC_"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Resource limits of each process; None is no limit.

    No memory limit by default: it counts address space, of which node, Java and Go reserve far more than they use. No
    CPU limit either: an agent may work for days.
    """

    processes: int | None = MAX_PROCESSES
    open_files: int | None = MAX_OPEN_FILES
    file_size: int | None = MAX_FILE_SIZE
    core_size: int | None = MAX_CORE_SIZE
    memory: int | None = None
    cpu_seconds: int | None = None

    def rlimits(self) -> list[tuple[str, int]]:
        """Return the limits that are set, by the system's names."""
        values = {
            "RLIMIT_NPROC": self.processes,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_FSIZE": self.file_size,
            "RLIMIT_CORE": self.core_size,
            "RLIMIT_AS": self.memory,
            "RLIMIT_CPU": self.cpu_seconds,
        }
        return [(name, value) for name, value in values.items() if value is not None]


class NetworkAccess(NamedTuple):
    """What can be reached: TCP ports (None is all of them), and sockets of this machine."""

    ports: frozenset[int] | None
    allows_unix: bool

    @property
    def is_none(self) -> bool:
        """Whether no network can be reached by any protocol."""
        return self.ports is not None and not self.ports


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox for an agent and its commands: what they may use besides the system and the session's folders.

    `read` and `write` are files and folders; `net` is "none", "all" or TCP ports ("443,8080"), with "unix" among them
    for sockets of this machine; `env` are names of variables. `protected` paths are never writable, whatever else is
    granted.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    net: str = DEFAULT_NET
    env: tuple[str, ...] = ()
    limits: Limits = Limits()
    mechanism: str = AUTO
    protected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parse_network(self.net)
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"unknown mechanism {self.mechanism!r}; choose one of {', '.join(MECHANISMS)}")
        for name, value in (
            ("read", self.read),
            ("write", self.write),
            ("env", self.env),
            ("protected", self.protected),
        ):
            if isinstance(value, str):
                raise ValueError(f"{name}: give a list of texts, as in {name}=({value!r},)")

    def with_protected(self, paths: Iterable[str]) -> Sandbox:
        """Return the same sandbox with more protected paths."""
        return msgspec.structs.replace(self, protected=(*self.protected, *paths))


def parse_network(net: str) -> NetworkAccess:
    """Parse `net`; raise ValueError with the possible values."""
    parts = [part.strip() for part in net.split(",")]
    ports: set[int] = set()
    for part in parts:
        if part.isascii() and part.isdigit() and 0 < int(part) < 65536:
            ports.add(int(part))
        elif part not in ("none", "all", "unix"):
            raise ValueError(f"{part!r} is not a network; use none, all, or TCP ports and unix, as in 443,8080,unix")
    exclusive = {"all", "none"}.intersection(parts)
    if len(exclusive) + bool(ports) > 1:
        raise ValueError(f"{net!r} contradicts itself; use none, all, or a list of ports")
    return NetworkAccess(None if "all" in parts else frozenset(ports), "unix" in parts)


def filter_environment(environ: Mapping[str, str], extra_names: Iterable[str] = ()) -> dict[str, str]:
    """Return an environment with only the allowed names."""
    names = KEPT_VARIABLES.union(extra_names)
    return {name: value for name, value in environ.items() if name in names or name.startswith(_KEPT_VARIABLE_PREFIX)}


def contains_path(folder: str, path: str) -> bool:
    """Whether a resolved path is a resolved folder or inside it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
