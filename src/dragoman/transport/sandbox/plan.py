"""A sandbox in use: how it is enforced on this machine, and a private folder that lives as long as it does.

`plan` is pure: from a Sandbox and what this machine has to rules, or SandboxUnavailable with what to do. A Box wraps a
command into the launcher, which enforces the plan and becomes the command. Whoever starts processes is above.
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
from dragoman.transport.sandbox import bubblewrap, landlock, protected_paths, seccomp, system_paths
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

# Private folders are called so; those whose owner is gone are removed by the next one.
FOLDER_PREFIX = "dragoman-sandbox-"

# Where the launcher finds this package: after the standard library, so that nothing beside us can stand in for it.
_SOURCE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
_LAUNCHER_CODE = (
    "import sys; sys.path.append(sys.argv[2]); "
    "from dragoman.transport.sandbox.launcher import main; main(int(sys.argv[1]))"
)

# Where our own interpreter may find its libraries, in the launcher only.
_LIBRARIES = "LD_LIBRARY_PATH"

# Where private folders are made if the usual place is not good for them.
_OTHER_PLACES = ("/tmp", "/var/tmp")


class SandboxSupport(NamedTuple):
    """What can be used here: the version of Landlock, bubblewrap or why not, and whose calls the filter knows."""

    landlock_abi: int
    find_bubblewrap: Callable[[Sequence[str]], tuple[str | None, str]]
    processor: str | None


class SandboxPlan(NamedTuple):
    """How a sandbox is enforced: with Landlock of this version, or with the bubblewrap that is at this path."""

    mechanism: str
    network: NetworkAccess
    write_paths: tuple[str, ...]
    seccomp_filter: bytes | None
    landlock_abi: int = 0
    bubblewrap: str | None = None


class SandboxedCommand(NamedTuple):
    """What to start instead of a command, and the descriptor to hand over; to be closed when it runs."""

    argv: list[str]
    environ: dict[str, str]
    plan_fd: int


def detect_support() -> SandboxSupport:
    """What this kernel and this system have; bubblewrap is tried only when it is needed."""
    return SandboxSupport(landlock.abi_version(), bubblewrap.find_bubblewrap, seccomp.supported_machine())


def plan_sandbox(sandbox: Sandbox, roots: Iterable[str], support: SandboxSupport) -> SandboxPlan:
    """The mechanism to use: Landlock where it can do all that is asked for, else bubblewrap, else an error.

    Roots are resolved paths: one that is a link by now is not the folder that somebody checked.
    """
    wanted = parse_network(sandbox.net)
    roots = tuple(roots)
    if moved := _moved(roots):
        raise SandboxUnavailable(f"{moved} is a link or lies behind one; name the folder that it leads to")
    named = [os.path.abspath(os.path.expanduser(path)) for path in (*roots, *sandbox.write)]
    real = tuple(dict.fromkeys(map(os.path.realpath, named)))
    # A folder in another one needs no rule of its own, and could be replaced by a link before the next command starts.
    write = tuple(path for path in real if not any(path != other and contains_path(other, path) for other in real))
    for path in (*named, *(os.path.abspath(os.path.expanduser(path)) for path in sandbox.read)):
        protected_paths.check_links(path, write)
    for folder in write:
        protected_paths.check_closed(folder, sandbox.protected)
        protected_paths.check_launcher(folder)
    reasons: list[str] = []
    tests = ((LANDLOCK, _why_not_landlock), (BUBBLEWRAP, _why_not_bubblewrap))
    for mechanism, why_not in tests:
        if sandbox.mechanism not in (AUTO, mechanism):
            continue
        reason = why_not(wanted, support, write)
        if reason is None:
            found = support.find_bubblewrap(write)[0] if mechanism == BUBBLEWRAP else None
            return SandboxPlan(mechanism, wanted, write, _seccomp_filter(wanted, support), support.landlock_abi, found)
        reasons.append(reason)
    raise SandboxUnavailable(f"no sandbox can be had: {'; '.join(reasons)}")


def _why_not_landlock(wanted: NetworkAccess, support: SandboxSupport, _write: Sequence[str]) -> str | None:
    if support.landlock_abi == 0:
        return "this kernel has no Landlock (Linux 5.13 and newer, enabled with lsm=landlock)"
    if support.landlock_abi < landlock.FILES_MIN_ABI:
        return f"this kernel's Landlock (version {support.landlock_abi}) lets files be emptied; it takes Linux 6.2"
    if wanted.ports and support.landlock_abi < landlock.TCP_MIN_ABI:
        return "limiting TCP to ports takes Linux 6.7; say all or none (--sandbox-net all)"
    if support.processor is None and wanted != NetworkAccess(None, True):
        return "sockets cannot be limited on this processor; say --sandbox-net all,unix"
    return None


def _why_not_bubblewrap(wanted: NetworkAccess, support: SandboxSupport, write: Sequence[str]) -> str | None:
    if wanted.ports:
        return "bubblewrap cannot limit TCP to ports; say all or none (--sandbox-net all)"
    found, reason = support.find_bubblewrap(write)
    return None if found else f"{reason}; install it, and allow user namespaces"


def _seccomp_filter(wanted: NetworkAccess, support: SandboxSupport) -> bytes | None:
    if support.processor is None or wanted == NetworkAccess(None, True):
        return None
    return seccomp.build_filter(
        support.processor, inet=not wanted.is_none, is_tcp_limited=wanted.ports is not None, unix=wanted.allows_unix
    )


class ActiveSandbox:
    """One sandbox for the commands of one agent or one session; `close` leaves nothing of it."""

    def __init__(self, sandbox: Sandbox, roots: Sequence[str], support: SandboxSupport | None = None) -> None:
        """Plan it and make its folder; raises SandboxUnavailable. Touches the disk: not for the event loop."""
        self.sandbox = sandbox
        self.plan = plan_sandbox(sandbox, roots, support or detect_support())
        for path in self.plan.write_paths:
            if not os.path.exists(path):
                raise SandboxUnavailable(f"the sandbox cannot make {path} writable: it does not exist; make it first")
        read = (os.path.realpath(os.path.expanduser(path)) for path in sandbox.read)
        # What lies in a writable folder can be read anyway, and could be replaced by a link before a command starts.
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
        """An environment with what may be seen of ours, what is set on purpose, and the private folders."""
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
        """What to start instead of these words; `keep` is set in the launcher too. Raises OSError as exec would.

        What a command that was typed `by_user` consists of can be read in the sandbox. Any other command was chosen by
        an agent, and its words open nothing.
        """
        if moved := _moved(self.plan.write_paths):
            raise OSError(errno.ELOOP, f"{moved}, where it may write, is a link now, or lies behind one")
        places = _programs(argv[0], environ, cwd)
        program = places[0] if by_user else next(filter(self._has, places), places[0])
        needed = list(self._read_paths)
        if by_user:
            needed += system_paths.required_paths(program, argv[1:], (*self.plan.write_paths, self.folder))
        if name := system_paths.other_name(program, self.plan.write_paths):
            needed.append(name)
        granted = (
            self._bubblewrap_options(needed, environ, cwd) if self.plan.bubblewrap else self._landlock_options(needed)
        )
        told = {
            "words": list(argv),
            "program": program,
            "outside": not by_user and not self._has(program),
            "env": dict(environ),
            "limits": self.sandbox.limits.rlimits(),
            "filter": base64.b64encode(self.plan.seccomp_filter or b"").decode(),
            "bubblewrap": self.plan.bubblewrap,
            **granted,
        }
        fd = os.memfd_create("plan", os.MFD_CLOEXEC)
        os.write(fd, json.dumps(told).encode())
        os.lseek(fd, 0, os.SEEK_SET)
        # -I: neither the working directory nor a variable says what is imported. -S: nor a file among packages.
        launcher = [sys.executable, "-I", "-S", "-B", "-c", _LAUNCHER_CODE, str(fd), _SOURCE_ROOT]
        return SandboxedCommand(launcher, {**self._libraries(), **(launcher_env or {})}, fd)

    def close(self) -> None:
        """Remove the private folder; everything in the sandbox must have ended."""
        _remove_folder(self.folder)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _has(self, path: str) -> bool:
        """Whether a file can be read in this sandbox without a grant of its own."""
        system = (*map(os.path.realpath, system_paths.SYSTEM_PATHS), system_paths.ETC)
        real = os.path.realpath(path)
        return any(
            contains_path(folder, real) for folder in (*self.plan.write_paths, *self._read_paths, self.folder, *system)
        )

    def _libraries(self) -> dict[str, str]:
        """Where the launcher finds libraries: not in the working directory, nor where an agent can put some."""
        given = os.environ.get(_LIBRARIES, "").split(os.pathsep)
        kept = [
            path for path in given if os.path.isabs(path) and not system_paths.way_through(path, self.plan.write_paths)
        ]
        return {_LIBRARIES: os.pathsep.join(kept)} if kept else {}

    def _landlock_options(self, needed: Sequence[str]) -> dict[str, Any]:
        system = [*system_paths.SYSTEM_PATHS, *system_paths.readable_etc_paths(), system_paths.PROC]
        rules = [(path, landlock.READ) for path in (*system, *needed)]
        rules += [(system_paths.ETC, landlock.LIST)]
        rules += [(path, landlock.DEVICE) for path in system_paths.DEVICES]
        rules += [(path, landlock.WRITE) for path in (*self.plan.write_paths, self.home, self.temporary)]
        ports = self.plan.network.ports
        limits_tcp = ports is not None and self.plan.landlock_abi >= landlock.TCP_MIN_ABI
        return {"abi": self.plan.landlock_abi, "rules": rules, "ports": sorted(ports or ()) if limits_tcp else None}

    def _bubblewrap_options(self, needed: Sequence[str], environ: Mapping[str, str], cwd: str) -> dict[str, Any]:
        system = [*system_paths.SYSTEM_PATHS, *system_paths.readable_etc_paths()]
        write = [*self.plan.write_paths, self.home, self.temporary]
        read = _outermost_paths(needed, [*system, *write])
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
        """What was named in the user's home is found in the empty one too, under its name."""
        home = os.path.realpath(os.path.expanduser("~"))
        for path in (*self._read_paths, *self.plan.write_paths):
            if path != home and contains_path(home, path):
                link = os.path.join(self.home, os.path.relpath(path, home))
                os.makedirs(os.path.dirname(link), mode=0o700, exist_ok=True)
                if not os.path.lexists(link):
                    os.symlink(path, link)


def _moved(folders: Iterable[str]) -> str | None:
    """The first of some resolved folders that is not where it was: a link stands in its way now."""
    return next((folder for folder in folders if os.path.realpath(folder) != folder), None)


def _outermost_paths(paths: Iterable[str], known: Sequence[str]) -> list[str]:
    """The paths that do not lie in others, or in what is known: a mount cannot be made in one that is not written."""
    found: list[str] = []
    for path in sorted(paths):
        if not any(contains_path(folder, path) for folder in (*known, *found)):
            found.append(path)
    return found


def _top_level_paths(paths: Iterable[str]) -> list[str]:
    """Folders like /bin, which is a link to usr/bin on most systems."""
    return [path for path in paths if path.count(os.sep) == 1]


def _programs(name: str, environ: Mapping[str, str], cwd: str) -> list[str]:
    """The files that a command can mean, in the order in which exec looks them up; raises OSError if there is none."""
    if os.sep in name:
        places = [os.path.join(cwd, name)]
    else:
        path = environ.get("PATH") or os.environ.get("PATH", os.defpath)
        places = [os.path.join(cwd, folder, name) for folder in path.split(os.pathsep)]
    there = [place for place in places if os.path.exists(place)]
    if not there:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    found = [place for place in there if os.path.isfile(place) and os.access(place, os.X_OK)]
    if not found:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    return [os.path.normpath(place) if os.path.isabs(place) else place for place in found]


def _create_private_folder(write: Sequence[str]) -> tuple[str, int]:
    """A new folder that is locked for as long as we live; folders that nobody holds any more are removed.

    Not in a folder that is writable in the sandbox: there it could be replaced by a link to another one.
    """
    import tempfile  # only who confines pays for it

    usual = tempfile.gettempdir()
    places = [path for path in (usual, *_OTHER_PLACES) if os.path.isdir(path) and os.access(path, os.W_OK)]
    where = next((path for path in places if not system_paths.way_through(path, write)), None)
    if where is None:
        what = f"the sandbox cannot have a private folder in {usual}, for it is writable in the sandbox"
        raise SandboxUnavailable(f"{what}; set TMPDIR to a folder that is not")
    _remove_stale_folders(where)
    while True:
        path = tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=where)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.path.isdir(path):  # else somebody swept it between the two lines
            return os.path.realpath(path), fd
        os.close(fd)


def _remove_stale_folders(where: str) -> None:
    with os.scandir(where) as entries:
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
    """Remove a folder, also where somebody took away the right to: it is ours."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.isdir(folder):
        return
    for place, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)  # before the walk goes into it
    shutil.rmtree(folder, ignore_errors=True)
