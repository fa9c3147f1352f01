"""The hostile run: all attacks of the table, and endless garbage, while another client works undisturbed.

    python -m tests.host.hostile.run --garbage 100000

A real `dragoman serve` with tokens. Prints what was tried and the outcome; exits 1 when anything was not refused as
documented, when the working client was disturbed, or when anything is left behind. Needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from dragoman import connect
from dragoman.host.auth.database import HostDatabase
from dragoman.host.auth.tokens import Tokens
from tests.host.faults.host import Host
from tests.host.hostile.attacker import INITIALIZE, WITHIN, Target, closing
from tests.host.hostile.attacks import ATTACKS, Attack
from tests.host.hostile.floods import FLOODS, LASTING

# Small, so that they are exceeded soon and nobody waits long.
LIMITS = {
    "body": 1_000_000,
    "frame": 1_000_000,
    "headers": 16_384,
    "header_timeout": 3.0,
    "body_timeout": 3.0,
    "streams": 100,
    "frames": 1_000,
    "stall": 10.0,
    "unfinished": 8_000_000,
    "rate": 3_000,
    "burst": 3_000,
}

# The pause of the working client between two turns, and how often it connects anew. Seconds.
WAYS = 2
REST = 0.2
VISIT = 0.5

# Garbage frames that are sent before the answers are checked.
BURST = 500

# How much the host may grow in total: caches and pools, not what attackers sent. Bytes.
GROWTH = 40 * 1024 * 1024


class Outcome(Struct):
    """The outcome of a run."""

    refused: dict[str, str] = {}  # by attack: its outcome
    garbage: int = 0  # frames that were sent
    answers: dict[str, int] = {}  # answers to them
    streams: int = 0  # sockets with garbage that is not HTTP
    turns: int = 0  # turns of the working client
    longest: float = 0.0  # the longest of them, in seconds
    visits: int = 0  # how often it connected anew
    grown: int = 0  # bytes
    faults: list[str] = []


class Victim:
    """A client that works over WebSocket and HTTP during the attacks."""

    def __init__(self, target: Target, token: str) -> None:
        self.turns = 0
        self.longest = 0.0
        self.faults: list[str] = []
        self.visits = 0
        self._ready = 0
        self.ready = asyncio.Event()
        self._door = target
        self._token = token
        self._ending = asyncio.Event()

    async def work(self, url: str) -> None:
        """Run turns until stopped."""
        async with connect(url, token=self._token, permission="allow", reconnect_timeout=0.0) as agent:
            session = await agent.open_session(self._door.folder)
            self._door.session = session.id
            self._ready += 1
            if self._ready == WAYS:
                self.ready.set()
            number = 0
            while not self._ending.is_set():
                began, prompt = time.monotonic(), f"v-{url[:2]}.{number}"
                answer = await session.ask(prompt)
                if f"{prompt}:0" not in answer:
                    self.faults.append(f"{prompt} was answered with {answer[:100]!r}")
                self.turns += 1
                self.longest = max(self.longest, time.monotonic() - began)
                number += 1
                await asyncio.sleep(REST)

    async def connect_as(self) -> None:
        """Connect anew, again and again."""
        while not self._ending.is_set():
            came = await self._door.upgrade(self._token)
            if came != "101":
                self.faults.append(f"somebody who may come in was refused: {came}")
            self.visits += 1
            await asyncio.sleep(VISIT)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Work over both transports during the block."""
        urls = (self._door.url, self._door.url.replace("ws", "http", 1))
        tasks = [asyncio.create_task(self.work(url)) for url in urls]
        try:
            async with asyncio.timeout(60.0):
                await self.ready.wait()
            tasks.append(asyncio.create_task(self.connect_as()))
            yield
            self._ending.set()
            async with asyncio.timeout(60.0):
                await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    self.faults.append(f"the one beside was disturbed: {result!r}")


def open_session(host: Host) -> tuple[Target, str, Tokens]:
    """Create tokens before the host starts. Return the target, the victim's token, and all tokens."""
    register = HostDatabase(f"{host.store}.host", "owner")
    tokens = Tokens(register)
    victim, _ = tokens.create("ann", "admin")
    good, _ = tokens.create("bob", "admin")
    past = Tokens(register, clock=lambda: time.time() - 1000)
    expired, _ = past.create("ann", "admin", seconds=10)
    revoked, known = tokens.create("ann", "admin")
    tokens.revoke(known.id)
    shared, _ = tokens.create_share_link("another-session", "viewer", 3600.0)
    return Target(0, str(host.folder), good, expired, revoked, shared), victim, tokens


async def hostile_run(folder: Path, garbage: int, seed: str, *, is_long: bool = False) -> Outcome:
    """Try all attacks and record the outcomes; in the long form also the slow ones."""
    outcome = Outcome()
    host = Host(folder, LIMITS, options=("--no-local", "--root", str(folder)))
    target, token, tokens = open_session(host)
    try:
        await host.start()
        target.port = host.port
        victim = Victim(target, token)
        async with victim.working():
            async with target.socket(token) as socket:  # a connection of another user
                target.connection = socket.response.headers["Acp-Connection-Id"] if socket.response else ""
                before = host.resident
                await _try_all(target, ATTACKS, outcome)
                await _try_all(target, {**FLOODS, **(LASTING if is_long else {})}, outcome)
                await _check_expiry(target, tokens, outcome)
                await _send_garbage(target, garbage, random.Random(seed), outcome)
                await _send_non_http(target, max(garbage // 200, 10), random.Random(seed), outcome)
                outcome.grown = host.resident - before
        outcome.turns, outcome.longest, outcome.visits = victim.turns, victim.longest, victim.visits
        outcome.faults += victim.faults
        if outcome.grown > GROWTH:
            outcome.faults.append(f"the host grew by {outcome.grown} bytes")
        outcome.faults += await host.end()
    finally:
        await host.abandon()
    return outcome


async def _try_all(target: Target, attacks: dict[str, tuple[Attack, str]], outcome: Outcome) -> None:
    async def one(name: str) -> None:
        attack, wanted = attacks[name]
        try:
            came = await attack(target)
        except Exception as error:
            came = repr(error)
        outcome.refused[name] = came
        if came != wanted:
            outcome.faults.append(f"{name}: {came!r}, not {wanted!r}")

    await asyncio.gather(*map(one, attacks))


async def _check_expiry(target: Target, tokens: Tokens, outcome: Outcome) -> None:
    """Check that a client is disconnected when its token expires."""
    revoked, known = tokens.create("carl", "editor")
    expiring, _ = tokens.create("dora", "editor", seconds=6.0)  # long enough to connect on a busy machine
    async with target.socket(revoked) as one, target.socket(expiring) as other:
        for socket in (one, other):
            await socket.send(json.dumps(INITIALIZE))
            await socket.recv()
        tokens.revoke(known.id)
        codes = await asyncio.gather(closing(one), closing(other))
    for name, code in zip(("revoked", "expired"), codes, strict=True):
        outcome.refused[f"in, and then {name}"] = code
        if code != "4401":
            outcome.faults.append(f"whose token was {name} while they were in: {code}, not 4401")


# --- garbage ------------------------------------------------------------------------------------------------------


def garbage(dice: random.Random) -> Iterator[str | bytes]:
    """Yield messages that no client should send, without end."""
    odd: list[Any] = [None, True, -1, 1.5, 10**30, "", "x" * 300, [], {}, [[]], {"a": {}}, "\ud83d", "\u0000"]
    methods = ["", "x", "initialize", "session/prompt", "session/update", "session/request_permission", "_dragoman/ack"]
    methods += ["$/cancel_request", "session/load", "session/attach", "fs/read_text_file", "_dragoman/presence"]

    def value(depth: int = 0) -> Any:
        if depth < 3 and dice.random() < 0.3:
            keys = ["sessionId", "cursor", "prompt", "cwd", "_meta", "dragoman", "requestId", "id"]
            return {dice.choice(keys): value(depth + 1) for _ in range(3)}
        return dice.choice(odd)

    while True:
        way = dice.randrange(8)
        if way == 0:
            yield dice.randbytes(dice.randrange(200)).decode("latin-1")
        elif way == 1:
            yield dice.randbytes(dice.randrange(200))
        elif way == 2:
            yield json.dumps(INITIALIZE)[: dice.randrange(80)]
        elif way == 3:
            yield "[" * dice.randrange(1, 3000)
        elif way == 4:
            yield json.dumps(value())
        elif way == 5:
            yield json.dumps({"jsonrpc": dice.choice(["2.0", "1.0", 2]), "id": value(), "result": value()})
        else:
            message = {"jsonrpc": "2.0", "id": value(), "method": dice.choice(methods), "params": value()}
            for name in list(message):
                if dice.random() < 0.2:
                    del message[name]
            yield json.dumps(message)


async def _send_garbage(target: Target, count: int, dice: random.Random, outcome: Outcome) -> None:
    """Send this many garbage frames, over one socket after the other."""
    answers: Counter[str] = Counter()
    messages = garbage(dice)
    while outcome.garbage < count:
        try:
            async with target.socket(target.good) as socket:
                if dice.random() < 0.5:
                    await socket.send(json.dumps(INITIALIZE))
                await _send_garbage_frames(socket, messages, count, answers, outcome)
        except ConnectionClosed as closed:
            answers[f"closed {closed.rcvd.code if closed.rcvd else 1006}"] += 1
        except InvalidStatus as refused:
            answers[f"refused {refused.response.status_code}"] += 1
            await asyncio.sleep(min(float(refused.response.headers.get("Retry-After", "1")), 2.0))
        except TimeoutError:
            outcome.faults.append("the host did not answer in the middle of garbage")
            break
    outcome.answers = dict(answers)
    for name in answers:
        if name not in ("error", "result", "asked", "closed 1008", "closed 1009", "refused 429"):
            outcome.faults.append(f"garbage was answered by {name}")


async def _send_garbage_frames(
    socket: ClientConnection, messages: Iterator[str | bytes], count: int, answers: Counter[str], outcome: Outcome
) -> None:
    while outcome.garbage < count:
        for _ in range(min(BURST, count - outcome.garbage)):
            await socket.send(next(messages))
            outcome.garbage += 1
        # A valid request is answered after everything before it, so that only one burst is in flight.
        mark = f"mark-{outcome.garbage}"
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": mark, "method": "nothing/here"}))
        async with asyncio.timeout(WITHIN):
            while True:
                message = json.loads(await socket.recv())
                answers["error" if "error" in message else "result" if "result" in message else "asked"] += 1
                if message.get("id") == mark:
                    break


async def _send_non_http(target: Target, count: int, dice: random.Random, outcome: Outcome) -> None:
    """Open sockets with bytes that are not HTTP, or with broken HTTP/2. None may stay open or succeed."""
    openings = [b"", b"GET ", b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"POST /acp HTTP/1.1\r\n"]

    async def one() -> None:
        answer = await target.raw(dice.choice(openings) + dice.randbytes(dice.randrange(1, 2000)), ends=True)
        outcome.streams += 1
        if answer == b"hangs" or answer.startswith(b"HTTP/1.1 2"):
            outcome.faults.append(f"bytes that say nothing: {answer[:60]!r}")

    for _ in range(0, count, 20):
        await asyncio.gather(*(one() for _ in range(20)))


def table(outcome: Outcome) -> str:
    """Return everything that was tried, and the counts."""
    width = max(map(len, [*outcome.refused, "frames of garbage"]))
    lines = [f"{name.ljust(width)}  {came or 'hung up'}" for name, came in outcome.refused.items()]
    lines += [f"{'frames of garbage'.ljust(width)}  {outcome.garbage}"]
    lines += [f"  {name.ljust(width - 2)}  {count}" for name, count in sorted(outcome.answers.items())]
    lines += [f"{'sockets of garbage'.ljust(width)}  {outcome.streams}"]
    lines += [f"{'turns of another meanwhile'.ljust(width)}  {outcome.turns}, the longest {outcome.longest:.1f} s"]
    lines += [f"{'visits of another meanwhile'.ljust(width)}  {outcome.visits}"]
    lines += [f"{'the host grew by'.ljust(width)}  {outcome.grown / 1024 / 1024:.1f} MiB"]
    return "\n".join(lines)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--garbage", type=int, default=100_000, metavar="N", help="frames of garbage (100,000)")
    parser.add_argument("--seed", default=os.urandom(4).hex())
    options = parser.parse_args()
    began = time.monotonic()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        outcome = asyncio.run(hostile_run(Path(folder).resolve(), options.garbage, options.seed, is_long=True))
    print(table(outcome))
    print("\n".join(outcome.faults) or f"no faults, in {time.monotonic() - began:.0f} seconds")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
