"""What every program needs of the system: where programs, libraries and settings are, and a few devices.

And what one program needs of its own: its file, its interpreter, its virtual environment, its packages. Takes paths and
looks at the disk, gives paths that may be read and executed in a sandbox, and tells which paths somebody in a sandbox
could make lead elsewhere. Knows no mechanism.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from functools import cache

from dragoman.transport.sandbox.spec import contains_path

# Programs, libraries, and what describes the machine. The last two tell runtimes how much memory and how many
# processors they have.
SYSTEM_PATHS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store",
    "/sys/fs/cgroup", "/sys/devices/system/cpu",
)  # fmt: skip
PROC = "/proc"
ETC = "/etc"

# /dev/tty is a process's own terminal. Not here: /dev/pts, the user's other terminals, and /dev/shm, other programs'
# memory.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
DEVICE_LINKS = ("/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr")

# The first line of a script; what is longer names no interpreter.
_MAX_SHEBANG = 512

# A script's interpreter may be a script whose interpreter is one; Linux follows as many.
_MAX_INTERPRETERS = 5

# As many links as Linux follows on the way to one file.
_LINKS = 40

# How the interpreters of Python are called.
_PYTHONS = ("python", "pypy")


@cache
def readable_etc_paths() -> tuple[str, ...]:
    """What in /etc may be read: for root, who could read everything, only what everybody can."""
    if os.geteuid() != 0:
        return (ETC,)
    return tuple(_world_readable_paths(ETC) or ())


def _world_readable_paths(folder: str) -> list[str] | None:
    """The folder itself where all in it is for everybody (None), else what in it is."""
    found: list[str] = []
    is_whole = True
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    for entry in entries:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):  # a link has no rights of its own; where it leads, others decide
            if not os.path.realpath(entry.path).startswith(ETC):
                found.append(entry.path)
        elif not status.st_mode & stat.S_IROTH:
            is_whole = False
        elif stat.S_ISDIR(status.st_mode):
            inner = _world_readable_paths(entry.path)
            found += [entry.path] if inner is None else inner
            is_whole = is_whole and inner is None
        elif stat.S_ISREG(status.st_mode):
            found.append(entry.path)
    return None if is_whole and folder != ETC else found


def required_paths(program: str, arguments: Sequence[str], write: Sequence[str] = ()) -> list[str]:
    """What the user's command needs to start: the program, its interpreters and their libraries, and files it is given.

    Files in the folders of `write` can be read anyway, and an agent may have changed them: what a link or a first line
    there leads to was not named by the user. Of that only an installed Python is given, for virtual environments.
    """
    needed: list[str] = []
    is_users = True
    for path in _interpreter_chain(program):
        for name in _link_chain(path):
            if way_through(name, write):
                is_users = False
            elif is_users:
                needed += [name, *_installation_folders(name)]
            elif os.path.basename(name).startswith(_PYTHONS):
                above = os.path.dirname(os.path.dirname(name))
                needed += [
                    folder for folder in _installation_folders(name) if folder == above and _is_python_prefix(above)
                ]
    needed += [
        word for word in arguments if os.path.isabs(word) and os.path.isfile(word) and not way_through(word, write)
    ]
    return list(dict.fromkeys(needed))


def other_name(path: str, write: Sequence[str]) -> str | None:
    """The folder of `write` that a path leads through, as the path calls it, where that is not its real name."""
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        if path not in write and os.path.realpath(path) in write:
            return None if any(way_through(path, (folder,), inside=True) for folder in write) else path
    return None


def way_through(path: str, folders: Sequence[str], *, inside: bool = False) -> str | None:
    """The first folder that the way to a path goes through, links followed; with `inside`, not if it ends there.

    Whoever can write in that folder decides where the path leads.
    """
    for entry in _entries(path):
        for folder in folders:
            if contains_path(folder, entry) and not (inside and entry == folder):
                return folder
    return None


def _entries(path: str) -> Iterator[str]:
    """Every name that the system looks up on the way to a file, in its real folder."""
    place, links = os.sep, 0
    rest = path.split(os.sep)[::-1]
    while rest:
        part = rest.pop()
        if part == os.pardir:
            place = os.path.dirname(place)
        elif part not in ("", os.curdir):
            entry = os.path.join(place, part)
            yield entry
            try:
                target = os.readlink(entry)
            except OSError:
                place = entry
                continue
            links += 1
            if links > _LINKS:
                return
            place = os.sep if os.path.isabs(target) else place
            rest += target.split(os.sep)[::-1]


def _interpreter_chain(program: str) -> Iterator[str]:
    """A program, the interpreter in its first line, and that one's."""
    for _ in range(_MAX_INTERPRETERS):
        yield program
        try:
            with open(program, "rb", opener=_open_at_once) as file:
                is_script = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                line = file.read(_MAX_SHEBANG).split(b"\n")[0] if is_script else b""
        except OSError:
            return
        words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
        if not words:
            return
        program = words[0]


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting: a pipe has nobody yet who writes into it."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _link_chain(path: str) -> Iterator[str]:
    """A file under all its names: each link on the way to it, and where the last one leads."""
    seen: set[str] = set()
    while path not in seen and len(seen) < _LINKS:
        seen.add(path)
        yield path
        if not os.path.islink(path):
            break
        path = os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(path)), os.readlink(path)))
    real = os.path.realpath(path)
    if real not in seen:
        yield real


def _installation_folders(program: str) -> Iterator[str]:
    """The folder that a program was installed into, where one can be told from a folder of many things."""
    if any(contains_path(folder, program) for folder in SYSTEM_PATHS):
        return  # there it can be read anyway; and all of a system is no installation
    above = os.path.dirname(os.path.dirname(program))
    if contains_path(above, os.path.realpath(os.path.expanduser("~"))):
        return
    if os.path.exists(os.path.join(above, "pyvenv.cfg")) or _is_python_prefix(above):
        yield above
    parts = program.split(os.sep)
    if "node_modules" in parts:  # packages find each other in the outermost one
        yield os.sep.join(parts[: parts.index("node_modules") + 1])


def _is_python_prefix(prefix: str) -> bool:
    """Whether an interpreter's own library is here; packages of a user are not one."""
    try:
        names = os.listdir(os.path.join(prefix, "lib"))
    except OSError:
        return False
    return any(
        name.startswith("python3") and os.path.exists(os.path.join(prefix, "lib", name, "os.py")) for name in names
    )
