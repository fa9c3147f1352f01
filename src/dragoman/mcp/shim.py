"""A command that is an MCP server for an agent: it connects its standard input and output with a local socket.

    DRAGOMAN_MCP_TOKEN=... python -m dragoman.mcp.shim SOCKET

Standard library only, so that it starts at once.
"""

from __future__ import annotations

import os
import socket
import sys
import threading


def main() -> int:
    """Connect, then copy in both directions until one side ends."""
    token = os.environ.get("DRAGOMAN_MCP_TOKEN", "")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(sys.argv[1])
    except (IndexError, OSError) as error:
        print(f"cannot reach the program that offers this MCP server: {error}", file=sys.stderr)
        return 1
    connection.sendall(token.encode() + b"\n")

    def send() -> None:
        while data := os.read(0, 65536):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=send, daemon=True).start()
    while data := connection.recv(65536):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    return 0


if __name__ == "__main__":
    sys.exit(main())
