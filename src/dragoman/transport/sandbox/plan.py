"""Plan a sandbox for this machine, and keep it active with its private folder.

`plan_sandbox` is pure. An ActiveSandbox wraps a command into the launcher, which applies the plan.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dragoman.errors import SandboxUnavailable
from dragoman.transport.sandbox import bubblewrap, landlock, seccomp, system_paths
from dragoman.transport.sandbox.spec import (
    AUTO,
    BUBBLEWRAP,
    LANDLOCK,
    NetworkAccess,
    Sandbox,
    contains_path,
    filter_environment,
    parse_network,
)

# The prefix of private folders; those whose owner is gone are removed by the next one.
FOLDER_PREFIX = "dragoman-sandbox-"

# Where the launcher finds this package: after the standard library, so that nothing next to us can replace that.
_SOURCE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
_LAUNCHER_CODE = (
    "import sys; sys.path.append(sys.argv[2]); "
    "from dragoman.transport.sandbox.launcher import main; main(int(sys.argv[1]))"
)

# Where our own interpreter may find its libraries, in the launcher only.
_LIBRARY_VARIABLE = "LD_LIBRARY_PATH"

# Where private folders are made if the usual place is not suitable.
_FALLBACK_FOLDERS = ("/tmp", "/var/tmp")


class SandboxSupport(NamedTuple):
    """What this machine supports: the version of Landlock, bubblewrap or why not, and the processor for the filter."""

    landlock_abi: int
    find_bubblewrap: Callable[[Sequence[str]], tuple[str | None, str]]
    processor: str | None


class SandboxPlan(NamedTuple):
    """How a sandbox is enforced: with Landlock of this version, or with the bubblewrap at this path."""

    mechanism: str
    network: NetworkAccess
    write_paths: tuple[str, ...]
    seccomp_filter: bytes | None
    landlock_abi: int = 0
    bubblewrap: str | None = None


class SandboxedCommand(NamedTuple):
    """What to start instead of a command, and the descriptor to pass; close it once the command runs."""

    argv: list[str]
    environ: dict[str, str]
    plan_fd: int


def detect_support() -> SandboxSupport:
    """Return what this kernel and system support; bubblewrap is tried only when it is needed."""
    return SandboxSupport(landlock.abi_version(), bubblewrap.find_bubblewrap, seccomp.supported_machine())


def plan_sandbox(sandbox: Sandbox, roots: Iterable[str], support: SandboxSupport) -> SandboxPlan:
    """Choose the mechanism: Landlock where it can do everything that is asked for, otherwise bubblewrap, otherwise an
    error.

    Roots are resolved paths: one that is a link by now is not the folder that was checked.
    """
    network = parse_network(sandbox.net)
    roots = tuple(roots)
    if moved := _first_moved_folder(roots):
        raise SandboxUnavailable(f"{moved} is a link or inside one; give the folder that it leads to")
    paths = [os.path.abspath(os.path.expanduser(path)) for path in (*roots, *sandbox.write)]
    real = tuple(dict.fromkeys(map(os.path.realpath, paths)))
    # A folder inside another one needs no rule of its own, and could be replaced by a link before the next command
    # starts.
    write = tuple(path for path in real if not any(path != other and contains_path(other, path) for other in real))
    for path in (*paths, *(os.path.abspath(os.path.expanduser(path)) for path in sandbox.read)):
        system_paths.check_links(path, write)
    for folder in write:
        system_paths.check_protected(folder, sandbox.protected)
        system_paths.check_launcher(folder)
    reasons: list[str] = []
    checks = ((LANDLOCK, _why_not_landlock), (BUBBLEWRAP, _why_not_bubblewrap))
    for mechanism, why_not in checks:
        if sandbox.mechanism not in (AUTO, mechanism):
            continue
        reason = why_not(network, support, write)
        if reason is None:
            bubblewrap = support.find_bubblewrap(write)[0] if mechanism == BUBBLEWRAP else None
            return SandboxPlan(
                mechanism, network, write, _seccomp_filter(network, support), support.landlock_abi, bubblewrap
            )
        reasons.append(reason)
    raise SandboxUnavailable(f"no sandbox is available: {'; '.join(reasons)}")


def _why_not_landlock(network: NetworkAccess, support: SandboxSupport, _write: Sequence[str]) -> str | None:
    if support.landlock_abi == 0:
        return "this kernel has no Landlock (Linux 5.13 and newer, enabled with lsm=landlock)"
    if support.landlock_abi < landlock.FILES_MIN_ABI:
        return f"this kernel's Landlock (version {support.landlock_abi}) cannot prevent truncation; it needs Linux 6.2"
    if network.ports and support.landlock_abi < landlock.TCP_MIN_ABI:
        return "limiting TCP to ports needs Linux 6.7; use all or none (--sandbox-net all)"
    if support.processor is None and network != NetworkAccess(None, True):
        return "sockets cannot be limited on this processor; use --sandbox-net all,unix"
    return None


def _why_not_bubblewrap(network: NetworkAccess, support: SandboxSupport, write: Sequence[str]) -> str | None:
    if network.ports:
        return "bubblewrap cannot limit TCP to ports; use all or none (--sandbox-net all)"
    bubblewrap, reason = support.find_bubblewrap(write)
    return None if bubblewrap else f"{reason}; install it, and allow user namespaces"


def _seccomp_filter(network: NetworkAccess, support: SandboxSupport) -> bytes | None:
    if support.processor is None or network == NetworkAccess(None, True):
        return None
    return seccomp.build_filter(
        support.processor, inet=not network.is_none, is_tcp_limited=network.ports is not None, unix=network.allows_unix
    )


class ActiveSandbox:
    """One sandbox for the commands of one agent or one session; `close` removes its folder."""

    def __init__(self, sandbox: Sandbox, roots: Sequence[str], support: SandboxSupport | None = None) -> None:
        """Plan it and make its folder; raise SandboxUnavailable. Uses the disk: do not call it in the event loop."""
        self.sandbox = sandbox
        self.plan = plan_sandbox(sandbox, roots, support or detect_support())
        for path in self.plan.write_paths:
            if not os.path.exists(path):
                raise SandboxUnavailable(f"the sandbox cannot make {path} writable: it does not exist; make it first")
        read = (os.path.realpath(os.path.expanduser(path)) for path in sandbox.read)
        # Files in a writable folder can be read anyway, and could be replaced by a link before a command starts.
        self._read_paths = [
            path for path in read if not any(contains_path(folder, path) for folder in self.plan.write_paths)
        ]
        self.folder, self._lock = _create_private_folder(self.plan.write_paths)
        try:
            self.home, self.temporary = (os.path.join(self.folder, name) for name in ("home", "tmp"))
            for path in (self.home, self.temporary):
                os.mkdir(path, 0o700)
            self._link_home_paths()
        except BaseException:
            self.close()
            raise

    def environment(self, environ: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment: what may be seen of ours, what is set on purpose, and the private folders."""
        own = {"HOME": self.home, "TMPDIR": self.temporary, "DRAGOMAN_SANDBOX": self.plan.mechanism}
        return {**filter_environment(environ, self.sandbox.env), **own, **(extra or {})}

    def wrap(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        cwd: str,
        launcher_env: Mapping[str, str] | None = None,
        *,
        by_user: bool = False,
    ) -> SandboxedCommand:
        """Return what to start instead of this command; `launcher_env` is also set in the launcher. Raise OSError as
        exec would.

        The files that a command typed `by_user` consists of can be read in the sandbox. Any other command was chosen by
        an agent, and its arguments grant nothing.
        """
        if moved := _first_moved_folder(self.plan.write_paths):
            raise OSError(errno.ELOOP, f"{moved}, where it may write, is a link now, or inside one")
        candidates = _find_programs(argv[0], environ, cwd)
        program = candidates[0] if by_user else next(filter(self._is_readable, candidates), candidates[0])
        read_paths = list(self._read_paths)
        if by_user:
            read_paths += system_paths.required_paths(program, argv[1:], (*self.plan.write_paths, self.folder))
        if name := system_paths.writable_alias(program, self.plan.write_paths):
            read_paths.append(name)
        options = (
            self._bubblewrap_options(read_paths, environ, cwd)
            if self.plan.bubblewrap
            else self._landlock_options(read_paths)
        )
        plan = {
            "argv": list(argv),
            "program": program,
            "outside": not by_user and not self._is_readable(program),
            "env": dict(environ),
            "limits": self.sandbox.limits.rlimits(),
            "filter": base64.b64encode(self.plan.seccomp_filter or b"").decode(),
            "bubblewrap": self.plan.bubblewrap,
            **options,
        }
        fd = os.memfd_create("plan", os.MFD_CLOEXEC)
        os.write(fd, json.dumps(plan).encode())
        os.lseek(fd, 0, os.SEEK_SET)
        # -I: neither the working directory nor a variable decides what is imported. -S: nor a file among packages.
        launcher = [sys.executable, "-I", "-S", "-B", "-c", _LAUNCHER_CODE, str(fd), _SOURCE_ROOT]
        return SandboxedCommand(launcher, {**self._library_environment(), **(launcher_env or {})}, fd)

    def close(self) -> None:
        """Remove the private folder; everything in the sandbox must have ended."""
        _remove_folder(self.folder)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _is_readable(self, path: str) -> bool:
        """Whether a file can be read in this sandbox without its own grant."""
        system = (*map(os.path.realpath, system_paths.SYSTEM_PATHS), system_paths.ETC)
        real = os.path.realpath(path)
        return any(
            contains_path(folder, real) for folder in (*self.plan.write_paths, *self._read_paths, self.folder, *system)
        )

    def _library_environment(self) -> dict[str, str]:
        """Return where the launcher finds libraries: not in the working directory, nor where an agent can write."""
        folders = os.environ.get(_LIBRARY_VARIABLE, "").split(os.pathsep)
        kept = [
            path
            for path in folders
            if os.path.isabs(path) and not system_paths.traversed_folder(path, self.plan.write_paths)
        ]
        return {_LIBRARY_VARIABLE: os.pathsep.join(kept)} if kept else {}

    def _landlock_options(self, read_paths: Sequence[str]) -> dict[str, Any]:
        system = [*system_paths.SYSTEM_PATHS, *system_paths.readable_etc_paths(), system_paths.PROC]
        rules = [(path, landlock.READ) for path in (*system, *read_paths)]
        rules += [(system_paths.ETC, landlock.LIST)]
        rules += [(path, landlock.DEVICE) for path in system_paths.DEVICES]
        rules += [(path, landlock.WRITE) for path in (*self.plan.write_paths, self.home, self.temporary)]
        ports = self.plan.network.ports
        limits_tcp = ports is not None and self.plan.landlock_abi >= landlock.TCP_MIN_ABI
        return {"abi": self.plan.landlock_abi, "rules": rules, "ports": sorted(ports or ()) if limits_tcp else None}

    def _bubblewrap_options(self, read_paths: Sequence[str], environ: Mapping[str, str], cwd: str) -> dict[str, Any]:
        system = [*system_paths.SYSTEM_PATHS, *system_paths.readable_etc_paths()]
        write = [*self.plan.write_paths, self.home, self.temporary]
        read = _outermost_paths(read_paths, [*system, *write])
        options = bubblewrap.build_arguments(
            system=system,
            read=read,
            write=write,
            environ=environ,
            cwd=os.path.realpath(cwd),
            links={path: os.readlink(path) for path in (*_top_level_paths(system), *read) if os.path.islink(path)},
            has_network=not self.plan.network.is_none,
            is_root=os.geteuid() == 0,
        )
        return {"options": options, "folders": write}

    def _link_home_paths(self) -> None:
        """Link granted paths of the user's home into the private one, under their names."""
        home = os.path.realpath(os.path.expanduser("~"))
        for path in (*self._read_paths, *self.plan.write_paths):
            if path != home and contains_path(home, path):
                link = os.path.join(self.home, os.path.relpath(path, home))
                os.makedirs(os.path.dirname(link), mode=0o700, exist_ok=True)
                if not os.path.lexists(link):
                    os.symlink(path, link)


def _first_moved_folder(folders: Iterable[str]) -> str | None:
    """Return the first resolved folder that moved: its path goes through a link now."""
    return next((folder for folder in folders if os.path.realpath(folder) != folder), None)


def _outermost_paths(paths: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return the paths outside of others and of `known`: bubblewrap cannot mount inside a read-only mount."""
    outermost: list[str] = []
    for path in sorted(paths):
        if not any(contains_path(folder, path) for folder in (*known, *outermost)):
            outermost.append(path)
    return outermost


def _top_level_paths(paths: Iterable[str]) -> list[str]:
    """Return folders like /bin, which is a link to usr/bin on most systems."""
    return [path for path in paths if path.count(os.sep) == 1]


def _find_programs(name: str, environ: Mapping[str, str], cwd: str) -> list[str]:
    """Return the files that a command can mean, in exec's order; raise OSError if there is none."""
    if os.sep in name:
        candidates = [os.path.join(cwd, name)]
    else:
        path = environ.get("PATH") or os.environ.get("PATH", os.defpath)
        candidates = [os.path.join(cwd, folder, name) for folder in path.split(os.pathsep)]
    existing = [candidate for candidate in candidates if os.path.exists(candidate)]
    if not existing:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    executables = [candidate for candidate in existing if os.path.isfile(candidate) and os.access(candidate, os.X_OK)]
    if not executables:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    return [os.path.normpath(candidate) if os.path.isabs(candidate) else candidate for candidate in executables]


def _create_private_folder(write: Sequence[str]) -> tuple[str, int]:
    """Make a folder that is locked while we live; remove folders that nobody locks any more.

    Not in a folder that is writable in the sandbox: there it could be replaced by a link to another one.
    """
    import tempfile  # slow to import, needed only here

    default = tempfile.gettempdir()
    folders = [path for path in (default, *_FALLBACK_FOLDERS) if os.path.isdir(path) and os.access(path, os.W_OK)]
    parent = next((path for path in folders if not system_paths.traversed_folder(path, write)), None)
    if parent is None:
        message = f"the sandbox cannot have a private folder in {default}, since it is writable in the sandbox"
        raise SandboxUnavailable(f"{message}; set TMPDIR to a folder that is not")
    _remove_stale_folders(parent)
    while True:  # until it is locked, another process may take it for a stale one and remove it
        path = tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.path.isdir(path):
            return os.path.realpath(path), fd
        os.close(fd)


def _remove_stale_folders(parent: str) -> None:
    with os.scandir(parent) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(FOLDER_PREFIX)]
    for path in names:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if os.fstat(fd).st_uid == os.geteuid():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_folder(path)
        except OSError:
            pass  # its owner lives
        finally:
            os.close(fd)


def _remove_folder(folder: str) -> None:
    """Remove a folder, also where permissions were taken away: it is ours."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.isdir(folder):
        return
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)  # before the walk enters it
    shutil.rmtree(folder, ignore_errors=True)
