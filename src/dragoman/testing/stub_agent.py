"""The agent process that a client under test starts: it passes its pipes to the test, and then waits.

Runs as a script with the standard library alone, because the client may start it where Dragoman is not installed. It
passes stdin, stdout and stderr over a private socket; the test then talks to the client directly. Commands are lines:
`exit N`, `kill N`, `ignore_sigterm`. It exits when the socket closes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

# Seconds to wait for the socket of the test.
CONNECT_TIMEOUT = 10.0


def main(path: str) -> int:
    """Pass the pipes to the test, then run its commands."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the client; agents in its group get it too
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(CONNECT_TIMEOUT)
    try:
        link.connect(path)
    except OSError as error:
        print(f"cannot connect to the test that plays this agent: {error.strerror}", file=sys.stderr)
        return 1
    about = {"pid": os.getpid(), "cwd": os.getcwd(), "environment": sorted(os.environ)}
    report = json.dumps(about).encode() + b"\n"
    socket.send_fds(link, [report[:1]], [0, 1, 2])
    link.sendall(report[1:])
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):  # now only the test holds the pipes
        os.dup2(nothing, fd)
    link.settimeout(None)
    with link.makefile("rb") as commands:
        for line in commands:
            word, _, number = line.decode().strip().partition(" ")
            if word == "exit":
                return int(number)
            if word == "kill":
                os.kill(os.getpid(), int(number))
            if word == "ignore_sigterm":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                link.sendall(b"ignored\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
