"""A system call filter: which kinds of sockets can be made, and a few calls that bypass everything else.

Landlock knows TCP only. Multipath TCP and fast open bypass it, and so do Unix sockets, through which a session bus or a
container service starts anything outside. Builds a classic BPF program and installs it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from typing import NamedTuple

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2  # prctl
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000

_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM = 1, 2
_TCP, _UDP = 6, 17
_TYPE_BITS = 0xF  # SOCK_CLOEXEC and SOCK_NONBLOCK are above them
_FAST_OPEN = 0x20000000

# The second set of numbers of x86-64 processors, which would bypass a filter that knows only the first.
_X32 = 0x40000000


class SyscallNumbers(NamedTuple):
    """The system call numbers of an architecture."""

    audit_arch: int
    socket: int
    send_calls: tuple[tuple[int, int], ...]  # a call, and which of its arguments are the flags
    denied: tuple[int, ...]  # io_uring_setup; add_key, request_key, keyctl: the keys of the whole login


SYSCALLS_BY_MACHINE: dict[str, SyscallNumbers] = {
    "x86_64": SyscallNumbers(0xC000003E, 41, ((44, 3), (46, 2), (307, 3)), (425, 248, 249, 250)),
    "aarch64": SyscallNumbers(0xC00000B7, 198, ((206, 3), (211, 2), (269, 3)), (425, 217, 218, 219)),
}

Instruction = tuple[int, int, int, int]


def supported_machine() -> str | None:
    """Return the processor that this interpreter runs on, if its calls are known here."""
    if sys.platform != "linux" or struct.calcsize("P") != 8 or sys.byteorder != "little":
        return None
    name = platform.machine()
    return name if name in SYSCALLS_BY_MACHINE else None


def build_filter(machine: str, *, inet: bool, is_tcp_limited: bool, unix: bool) -> bytes:
    """Return the BPF program: `inet` allows IP sockets, `is_tcp_limited` only those that Landlock knows."""
    calls = SYSCALLS_BY_MACHINE[machine]
    code: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, calls.audit_arch),
        _return_errno(errno.ENOSYS),  # a program for another processor: its numbers mean something else
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        _return_errno(errno.ENOSYS),
    ]
    for number in calls.denied:
        code += [(_EQUAL, 0, 1, number), _return_errno(errno.ENOSYS)]
    if inet and is_tcp_limited:
        for number, argument in calls.send_calls:
            code += _rules_for_call(
                number, [_load_argument(argument), (_ANY_BIT, 0, 1, _FAST_OPEN), _return_errno(errno.EACCES)]
            )
    code += _rules_for_call(calls.socket, _socket_rules(inet, is_tcp_limited, unix))
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def install_filter(code: bytes) -> None:
    """Install the filter for this thread and everything it starts; raise OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(code, len(code))
    head = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    for call in ((_NO_NEW_PRIVILEGES, 1, 0), (_SET_SECCOMP, _FILTER_MODE, head)):
        arguments = [value if isinstance(value, bytes) else ctypes.c_ulong(value) for value in call[1:]]
        if libc.prctl(call[0], *arguments, ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _socket_rules(inet: bool, is_tcp_limited: bool, unix: bool) -> list[Instruction]:
    allow: Instruction = (_RETURN, 0, 0, _ALLOW)
    code: list[Instruction] = [_load_argument(0)]
    for family in (_NETLINK, *((_UNIX,) if unix else ())):  # interface names are read through netlink
        code += [(_EQUAL, 0, 1, family), allow]
    if not inet:
        return [*code, _return_errno(errno.EACCES)]
    if not is_tcp_limited:
        return [*code, (_EQUAL, 1, 0, _INET), (_EQUAL, 0, 1, _INET6), allow, _return_errno(errno.EACCES)]
    code += [(_EQUAL, 2, 0, _INET), (_EQUAL, 1, 0, _INET6), _return_errno(errno.EACCES)]
    code += [_load_argument(1), (_AND, 0, 0, _TYPE_BITS)]
    for kind, protocol in ((_STREAM, _TCP), (_DATAGRAM, _UDP)):
        allowed_families: list[Instruction] = [
            _load_argument(2),
            (_EQUAL, 1, 0, 0),
            (_EQUAL, 0, 1, protocol),
            allow,
            _return_errno(errno.EPROTONOSUPPORT),  # programs that try Multipath TCP first then fall back
        ]
        code += [(_EQUAL, 0, len(allowed_families), kind), *allowed_families]
    return [*code, _return_errno(errno.EACCES)]


def _rules_for_call(number: int, code: list[Instruction]) -> list[Instruction]:
    """Return instructions for one call only; after them the number of the call is loaded again."""
    return [(_EQUAL, 0, len(code), number), *code, (_LOAD, 0, 0, _NUMBER)]


def _load_argument(index: int) -> Instruction:
    """Load the lower half of an argument: all of it, for the ints that are checked here."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _return_errno(number: int) -> Instruction:
    return (_RETURN, 0, 0, _REFUSE | number)
