"""The recorder of a kill run: it records what the other processes received, and compares it with the logs at the end.

    python -m tests.store.kill_run.recorder FOLDER ADDRESS

It prints what the run needs: which process is connected, when a turn started, what failed. After `compare` on its input
it waits for all connections to end, compares, and prints the findings as JSON. It is never killed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from tests.store.kill_run.comparison import compare
from tests.store.kill_run.records import Records

# What is reported to the killer at once.
NEWS = frozenset({"here", "began", "refused", "broken", "answered"})

# The victims have ended when a comparison is asked for; what they said last is read within this time. Seconds.
TIMEOUT = 90.0


async def main(folder: str, address: str) -> None:
    """Record until `compare`."""
    records = Records()
    lines: set[asyncio.Task[None]] = set()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        lines.add(task)
        try:
            while (line := await reader.readline()).endswith(b"\n"):  # one that a kill cut was not said
                words = line.decode().split()
                records.note(words)
                if words[0] in NEWS:
                    print(*words, flush=True)
        finally:
            lines.discard(task)
            writer.close()

    # A session that is replayed is one line.
    server = await asyncio.start_unix_server(listen, address, limit=1 << 26)
    print("ready", flush=True)
    while (line := (await asyncio.to_thread(sys.stdin.readline)).split())[:1] not in ([], ["compare"]):
        records.note(line)
    async with asyncio.timeout(TIMEOUT):
        while lines:
            await asyncio.wait(lines)
    server.close()
    Path(address).unlink(missing_ok=True)
    if line:
        print("findings", msgspec.json.encode(await compare(folder, records)).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
