"""What a client under test starts as its agent: hands its pipes to whoever tests it, and then waits.

Runs as a file of its own, with the standard library alone, for a client may start it in an environment that knows no
Dragoman. It passes stdin, stdout and stderr over a private socket, so whoever tests reads and writes the very pipes of
the client; what is left here is a process that can be found, ended and left behind. Orders are lines: `exit N`,
`kill N`, `deaf` (TERM is ignored). When the socket closes, it goes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

# A client that cannot be watched is not tested: whoever started us sees why on stderr. Seconds.
PATIENCE = 10.0


def main(path: str) -> int:
    """Hand over the pipes, then do as told."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the client; agents in its group get it too
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(PATIENCE)
    try:
        link.connect(path)
    except OSError as error:
        print(f"the test that plays this agent is not there any more: {error.strerror}", file=sys.stderr)
        return 1
    about = {"pid": os.getpid(), "cwd": os.getcwd(), "environment": sorted(os.environ)}
    told = json.dumps(about).encode() + b"\n"
    socket.send_fds(link, [told[:1]], [0, 1, 2])
    link.sendall(told[1:])
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):  # the pipes are now held by the test alone
        os.dup2(nothing, fd)
    link.settimeout(None)
    with link.makefile("rb") as orders:
        for line in orders:
            word, _, number = line.decode().strip().partition(" ")
            if word == "exit":
                return int(number)
            if word == "kill":
                os.kill(os.getpid(), int(number))
            if word == "deaf":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                link.sendall(b"deaf\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
