"""Paths that programs need (of the system, and the parts of one program), and paths that are never writable.

The parts of a program are its file, its interpreter, its virtual environment and its packages. Never writable is what
controls the sandbox or runs outside it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from dragoman.errors import SandboxUnavailable
from dragoman.transport.sandbox.spec import contains_path

# Programs, libraries, and descriptions of the machine. The last two tell runtimes the memory and the number of
# processors.
SYSTEM_PATHS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store",
    "/sys/fs/cgroup", "/sys/devices/system/cpu",
)  # fmt: skip
PROC = "/proc"
ETC = "/etc"

# /dev/tty is a process's own terminal. Not here: /dev/pts, the user's other terminals, and /dev/shm, other programs'
# memory.
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")

# The longest first line of a script that names an interpreter.
_MAX_SHEBANG = 512

# A script's interpreter may be a script whose interpreter is one; Linux follows this many.
_MAX_INTERPRETERS = 5

# How many links Linux follows on the way to one file.
_MAX_LINKS = 40

# The names of Python interpreters.
_PYTHON_NAMES = ("python", "pypy")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_INSTALL = "install it outside of that folder (pipx install dragoman, or uv tool install dragoman) and start that one"
_IMPORT = "take that folder out of PYTHONPATH, start Python with -P, or work in another folder"


@cache
def readable_etc_paths() -> tuple[str, ...]:
    """Return what may be read in /etc: for root, who could read everything, only what everybody can."""
    if os.geteuid() != 0:
        return (ETC,)
    return tuple(_world_readable_paths(ETC) or ())


def _world_readable_paths(folder: str) -> list[str] | None:
    """Return None where everything in the folder is world-readable, otherwise the paths in it that are."""
    found: list[str] = []
    is_whole = True
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    for entry in entries:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):  # a link has no permissions of its own; those of its target count
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
    """Return what the user's command needs to start: the program, its interpreters and their libraries, and files it is
    given.

    Files in the folders of `write` can be read anyway, and an agent may have changed them: the user did not name what a
    link or a first line there leads to. Of that only an installed Python is granted, for virtual environments.
    """
    paths: list[str] = []
    is_named_by_user = True
    for path in _interpreter_chain(program):
        for name in _link_chain(path):
            if traversed_folder(name, write):
                is_named_by_user = False
            elif is_named_by_user:
                paths += [name, *_installation_folders(name)]
            elif os.path.basename(name).startswith(_PYTHON_NAMES):
                prefix = os.path.dirname(os.path.dirname(name))
                paths += [
                    folder for folder in _installation_folders(name) if folder == prefix and _is_python_prefix(prefix)
                ]
    paths += [
        argument
        for argument in arguments
        if os.path.isabs(argument) and os.path.isfile(argument) and not traversed_folder(argument, write)
    ]
    return list(dict.fromkeys(paths))


def writable_alias(path: str, write: Sequence[str]) -> str | None:
    """Return the folder of `write` that a path leads through, as spelled there, if that is not its real name."""
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        if path not in write and os.path.realpath(path) in write:
            return None if any(traversed_folder(path, (folder,), inside=True) for folder in write) else path
    return None


def traversed_folder(path: str, folders: Sequence[str], *, inside: bool = False) -> str | None:
    """Return the first of these folders that a path goes through, following links; with `inside`, not if it ends there.

    Whoever can write in that folder decides where the path leads.
    """
    for entry in _looked_up_names(path):
        for folder in folders:
            if contains_path(folder, entry) and not (inside and entry == folder):
                return folder
    return None


def _looked_up_names(path: str) -> Iterator[str]:
    """Yield every name that the system looks up on the way to a file, in its real folder."""
    folder, links = os.sep, 0
    rest = path.split(os.sep)[::-1]
    while rest:
        part = rest.pop()
        if part == os.pardir:
            folder = os.path.dirname(folder)
        elif part not in ("", os.curdir):
            entry = os.path.join(folder, part)
            yield entry
            try:
                target = os.readlink(entry)
            except OSError:
                folder = entry
                continue
            links += 1
            if links > _MAX_LINKS:
                return
            folder = os.sep if os.path.isabs(target) else folder
            rest += target.split(os.sep)[::-1]


def _interpreter_chain(program: str) -> Iterator[str]:
    """Yield a program, the interpreter in its first line, and that one's."""
    for _ in range(_MAX_INTERPRETERS):
        yield program
        try:
            with open(program, "rb", opener=_open_at_once) as file:
                is_script = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                line = file.read(_MAX_SHEBANG).split(b"\n")[0] if is_script else b""
        except OSError:
            return
        shebang = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
        if not shebang:
            return
        program = shebang[0]


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting: a pipe may have no writer yet."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _link_chain(path: str) -> Iterator[str]:
    """Yield all names of a file: each link on the way to it, and the target."""
    seen: set[str] = set()
    while path not in seen and len(seen) < _MAX_LINKS:
        seen.add(path)
        yield path
        if not os.path.islink(path):
            break
        path = os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(path)), os.readlink(path)))
    real = os.path.realpath(path)
    if real not in seen:
        yield real


def _installation_folders(program: str) -> Iterator[str]:
    """Yield the installation folder of a program, where it can be told from a general folder."""
    if any(contains_path(folder, program) for folder in SYSTEM_PATHS):
        return  # it can be read anyway; and a whole system is no installation
    prefix = os.path.dirname(os.path.dirname(program))
    if contains_path(prefix, os.path.realpath(os.path.expanduser("~"))):
        return
    if os.path.exists(os.path.join(prefix, "pyvenv.cfg")) or _is_python_prefix(prefix):
        yield prefix
    parts = program.split(os.sep)
    if "node_modules" in parts:  # packages find each other in the outermost one
        yield os.sep.join(parts[: parts.index("node_modules") + 1])


def _is_python_prefix(prefix: str) -> bool:
    """Whether an interpreter's standard library is here; a user's packages are not one."""
    try:
        names = os.listdir(os.path.join(prefix, "lib"))
    except OSError:
        return False
    return any(
        name.startswith("python3") and os.path.exists(os.path.join(prefix, "lib", name, "os.py")) for name in names
    )


# Landlock cannot exclude a part of a folder, and a mount over it does not help either: the folder above it could be
# moved away and replaced. So a folder that holds something protected is refused.


def check_links(path: str, write: Sequence[str]) -> None:
    """Refuse to grant a path through a link that an agent could change."""
    real = os.path.realpath(path)
    for folder in write:
        if traversed_folder(path, (folder,), inside=True) and not contains_path(folder, real):
            message = f"the sandbox cannot grant {path}, for an agent could change the link to it in {folder}"
            raise SandboxUnavailable(f"{message}; name {real} itself")


def check_protected(folder: str, protected: Iterable[str]) -> None:
    """Refuse a folder that contains, or is inside, the user's policy, grants and stores."""
    for path in map(os.path.expanduser, protected):
        protected_path = os.path.realpath(path)
        if traversed_folder(path, (folder,)) or contains_path(protected_path, folder):
            message = f"the sandbox cannot make {folder} writable, for {protected_path} is Dragoman's own"
            raise SandboxUnavailable(f"{message}; work in a folder that has nothing to do with it")


def check_launcher(folder: str) -> None:
    """Refuse a folder that the launcher or this process is loaded from: both run outside the sandbox."""
    prefixes = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)
    # An empty one is the working directory. What is neither a path nor a folder belongs to an import hook.
    imports = [os.path.abspath(path) for path in sys.path if not path or os.path.isabs(path) or os.path.isdir(path)]
    installed = [path for path in imports if any(contains_path(prefix, path) for prefix in prefixes)]
    parts = (os.path.dirname(sys.executable), _PACKAGE, *installed)
    message = f"the sandbox cannot make {folder} writable"
    for path in (sys.executable, *prefixes, *parts):
        # A project may be below a prefix, such as /usr, but not among the programs and modules there.
        if traversed_folder(path, (folder,)) or (path in parts and contains_path(os.path.realpath(path), folder)):
            raise SandboxUnavailable(f"{message}, for Dragoman itself runs from {path}; {_INSTALL}")
    for path in imports:
        if traversed_folder(path, (folder,)):
            raise SandboxUnavailable(f"{message}, for this program imports modules from {path}; {_IMPORT}")
