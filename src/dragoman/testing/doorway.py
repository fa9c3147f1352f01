"""What a client under test starts as its agent: hands its standard input and output to the test that waits at a socket.

Run as a file, with the path of the socket; imports nothing of Dragoman, so that it is there at once. Stays until the
test lets go of it, for a client looks at its agent's process as well as at its pipes.
"""

from __future__ import annotations

import socket
import sys


def main(path: str) -> int:
    """Report at the socket and wait for its end."""
    link = socket.socket(socket.AF_UNIX)
    try:
        link.connect(path)
        socket.send_fds(link, [b"!"], [0, 1])
        status = link.recv(1)  # one byte, the exit status; nothing when the test itself is gone
    except OSError as error:
        print(f"the test that plays this agent is not there: {error}", file=sys.stderr)
        return 1
    return status[0] if status else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
