"""Landlock: restrict files, TCP ports and other processes for this process and all its descendants, permanently.

Tables of rights by ABI version, and the three system calls. Standard library only, since the launcher imports it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# The same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_OPENAT2, _HERE, _NO_LINKS = 437, -100, 0x04
_VERSION = 1
_PATH_BENEATH, _NET_PORT = 1, 2
_NO_NEW_PRIVILEGES = 38  # prctl

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1 << 0, 1 << 1

# What each ABI version added: file rights, TCP rights, scopes.
_RIGHTS_BY_ABI: dict[int, tuple[int, int, int]] = {
    1: ((1 << 13) - 1, 0, 0),
    2: (REFER, 0, 0),
    3: (TRUNCATE, 0, 0),
    4: (0, BIND_TCP | CONNECT_TCP, 0),
    5: (IOCTL_DEV, 0, 0),
    6: (0, 0, SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS),
}

# Below this a process can still truncate files that it may not write.
FILES_MIN_ABI = 3
TCP_MIN_ABI = 4

READ = EXECUTE | READ_FILE | READ_DIR
# All but devices, which nobody needs to create in a project.
WRITE = (
    READ | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | REFER
    | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
)  # fmt: skip
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
LIST = READ_DIR
_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

# A rule for a path that does not exist, or that we may not see, would allow nothing.
_MISSING_PATH_ERRORS = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)


class HandledRights(NamedTuple):
    """What a kernel of some version can refuse."""

    files: int
    tcp: int
    scopes: int


def handled_rights(abi: int) -> HandledRights:
    """Return everything that this version can refuse; newer ones are used like the newest known."""
    files = tcp = scopes = 0
    for version, (more_files, more_tcp, more_scopes) in _RIGHTS_BY_ABI.items():
        if version <= abi:
            files, tcp, scopes = files | more_files, tcp | more_tcp, scopes | more_scopes
    return HandledRights(files, tcp, scopes)


def pack_ruleset(abi: int, limits_tcp: bool) -> bytes:
    """Return the first argument of landlock_create_ruleset, in the size that this version knows."""
    files, tcp, scopes = handled_rights(abi)
    members = [files]
    if abi >= TCP_MIN_ABI:
        members.append(tcp if limits_tcp else 0)
    if abi >= 6:
        members.append(scopes)
    return struct.pack(f"={len(members)}Q", *members)


def abi_version() -> int:
    """Return the ABI version of this kernel; 0 without Landlock, or where it is disabled."""
    if not hasattr(os, "O_PATH"):
        return 0
    try:
        return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))
    except (OSError, AttributeError):
        return 0


def restrict(abi: int, rules: Iterable[tuple[str, int]], ports: Sequence[int] | None) -> None:
    """Give up every file except those below the paths of the rules, and every TCP port except these (None: keep all).

    Raise OSError. Permanent: nothing that this thread starts gets it back.
    """
    libc = _libc()
    attributes = pack_ruleset(abi, ports is not None)
    rules_fd = _check_result(libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    try:
        for path, rights in rules:
            _allow_path(libc, rules_fd, path, rights & handled_rights(abi).files)
        for port in ports or ():
            rule = struct.pack("=QQ", BIND_TCP | CONNECT_TCP, port)
            _check_result(libc.syscall(_ADD_RULE, rules_fd, _NET_PORT, rule, 0))
        _check_result(libc.prctl(_NO_NEW_PRIVILEGES, *(ctypes.c_ulong(value) for value in (1, 0, 0, 0))))
        _check_result(libc.syscall(_RESTRICT_SELF, rules_fd, 0))
    finally:
        os.close(rules_fd)


def _allow_path(libc: ctypes.CDLL, rules_fd: int, path: str, rights: int) -> None:
    # A folder to write has its real name here: a link on the way was put there since, and not by the user.
    by_real_name = bool(rights & MAKE_REG)
    try:
        fd = _open_without_links(libc, path) if by_real_name else os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _MISSING_PATH_ERRORS and not (by_real_name and error.errno == errno.ELOOP):
            return
        raise
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FILE_RIGHTS  # the kernel refuses folder rights for a file
        if rights:
            _check_result(libc.syscall(_ADD_RULE, rules_fd, _PATH_BENEATH, struct.pack("=Qi", rights, fd), 0))
    finally:
        os.close(fd)


def _open_without_links(libc: ctypes.CDLL, path: str) -> int:
    """Open a path that has no links in it; raise OSError (ELOOP) if it has one."""
    open_how = struct.pack("=3Q", os.O_PATH | os.O_CLOEXEC, 0, _NO_LINKS)
    return _check_result(libc.syscall(_OPENAT2, _HERE, os.fsencode(path), open_how, ctypes.c_size_t(len(open_how))))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check_result(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
