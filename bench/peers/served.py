"""Starts a server of some SDK for a measured client: takes its command, gives its address, and ends it.

A server prints its address as soon as it listens and serves until its standard input ends. Knows no SDK.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

TIMEOUT = 10.0  # seconds to leave after its input ended; each of them takes less than one


@contextmanager
def served(command: Sequence[str]) -> Iterator[str]:
    """The server's address, `http://HOST:PORT/PATH`."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise ChildProcessError(f"{command[-1]} ended before it listened")
        yield address
    finally:
        process.stdin.close()
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def scheme(address: str, over: str) -> str:
    """The address as the transport `over` spells it: ws://… for WebSocket."""
    return address.replace("http", "ws", 1) if over == "ws" else address
