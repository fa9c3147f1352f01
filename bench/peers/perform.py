"""The agent's half of the measured work: takes a prompt and two verbs of the SDK (say, read), does the rest.

The verbs are the SDK's own calls, handed in unwrapped, so both Python agents differ only in the SDK they use.

    /mark                      count from here
    /stream COUNT BYTES        that many different chunks
    /document SIZE             one chunk of that size
    /files COUNT INFLIGHT [P]  read files from the client; of P when given, else a different path each time
    /report                    one chunk: what this process used since the mark, as JSON
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import islice
from time import perf_counter

from bench.peers.meter import Meter
from bench.peers.texts import ANSWER, chunks, document

Say = Callable[[str], Awaitable[object]]
Read = Callable[[str], Awaitable[str]]


class Performer:
    """One agent process's measured work and what it knows about it."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._noted: dict[str, float] = {}

    async def perform(self, prompt: str, say: Say, read: Read) -> None:
        """Do what one prompt says."""
        verb, *arguments = prompt.split(maxsplit=3)
        match verb:
            case "/mark":
                self._noted = {}
                self._meter.mark()
            case "/stream":
                for text in islice(chunks(int(arguments[1])), int(arguments[0])):
                    await say(text)
            case "/document":
                await say(document(int(arguments[0])))
            case "/files":
                path = arguments[2] if len(arguments) > 2 else ""
                self._noted = await _read_files(int(arguments[0]), int(arguments[1]), path, read)
            case "/report":
                await say(json.dumps(self._meter.read() | self._noted))
            case _:
                raise ValueError(f"unknown work: {prompt[:80]!r}")


async def _read_files(count: int, inflight: int, path: str, read: Read) -> dict[str, float]:
    latencies: list[float] = []
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            asked = perf_counter()
            text = await read(path or f"/bench/file-{number:05d}.txt")
            latencies.append(perf_counter() - asked)
            if not text or (not path and text != ANSWER):
                raise ValueError(f"request {number}: unexpected answer {text[:80]!r}")

    started = perf_counter()
    await asyncio.gather(*(worker() for _ in range(inflight)))
    elapsed = perf_counter() - started
    if len(latencies) != count:
        raise ValueError(f"{len(latencies)} answers to {count} requests")
    return {"p50": sorted(latencies)[count // 2], "requests_per_second": count / elapsed}
