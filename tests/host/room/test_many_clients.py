"""Clients join, leave, prompt, cancel and answer at random while agents crash: every view still equals the log."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConnectionFailed
from dragoman.transport.memory import MemoryTransport
from tests.host.memory_host import Hosted, running_host, until

CLIENTS, SESSIONS, STEPS = 6, 2, 60


class RandomUser:
    """One user over all their connections: what they got of each session, by number."""

    def __init__(self, hosted: Hosted, dice: random.Random) -> None:
        self.hosted = hosted
        self.dice = dice
        self.received: dict[str, list[int]] = {}
        self.unanswered: dict[int, str] = {}
        self.transport: MemoryTransport | None = None
        self._last = 0
        self._reading: asyncio.Task[None] | None = None

    async def come(self, sessions: list[str]) -> None:
        self.transport = self.hosted.connect_as("ann")
        self.unanswered.clear()
        self._reading = asyncio.ensure_future(self._read(self.transport))
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        await until(lambda: not self.unanswered)
        for session in sessions:
            received = self.received.setdefault(session, [])
            self.call("session/attach", {"sessionId": session, "cursor": received[-1] if received else 0})
        await until(lambda: not self.unanswered)

    async def go(self) -> None:
        if self.transport is not None and self._reading is not None:
            await self.transport.close()
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self.transport = None

    def call(self, method: str, params: Any) -> None:
        self._last += 1
        self.unanswered[self._last] = method
        self._send({"id": self._last, "method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        if self.transport is not None:
            with suppress(ConnectionFailed):
                self.transport.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def _read(self, transport: MemoryTransport) -> None:
        with suppress(ConnectionFailed):
            while True:
                for frame in await transport.receive():
                    self._read_answers(json.loads(bytes(frame)))  # type: ignore[arg-type]

    def _read_answers(self, frame: dict[str, Any]) -> None:
        if frame.get("method") == "session/update":
            seq = frame["params"].get("_meta", {}).get("dragoman", {}).get("seq")
            if seq is not None:
                self.received[frame["params"]["sessionId"]].append(seq)
        elif frame.get("method") == "session/request_permission" and self.dice.random() < 0.7:
            option = self.dice.choice(frame["params"]["options"])["optionId"]
            self._send({"id": frame["id"], "result": {"outcome": {"outcome": "selected", "optionId": option}}})
        elif "method" not in frame:
            self.unanswered.pop(frame["id"], None)

    def act(self, session: str) -> None:
        prompt = self.dice.choice(["many 30", "ask", "hello", "many 3"])
        if self.dice.random() < 0.3:
            self._send({"method": "session/cancel", "params": {"sessionId": session}})
        else:
            self.call("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": prompt}]})


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_view_equals_the_log_whatever_people_do(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    async with running_host() as hosted, hosted.client() as opener:
        sessions = [(await opener.open_session(str(tmp_path))).id for _ in range(SESSIONS)]
        guests = [RandomUser(hosted, dice) for _ in range(CLIENTS)]
        for guest in guests:
            await guest.come(sessions)
        await opener.close()
        for _ in range(STEPS):
            guest, session, what = dice.choice(guests), dice.choice(sessions), dice.random()
            if what < 0.15:
                await guest.go()
            elif guest.transport is None:
                await guest.come(sessions)
            elif what < 0.2 and hosted.host.rooms[session].agent.is_running:
                await dice.choice(hosted.started).transport.close("killed")
            else:
                guest.act(session)
            for _ in range(dice.randrange(6)):
                await asyncio.sleep(0)
        for guest in guests:
            await guest.go()
            guest.dice = random.Random(0)
            guest.dice.random = lambda: 0.0  # type: ignore[method-assign]  # answers everything now
            await guest.come(sessions)
        await until(lambda: all(room.queue.is_empty for room in hosted.host.rooms.values()))
        for session in sessions:
            log = await hosted.host.store.read(session)
            assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
            started = [entry.turn for entry in log if entry.kind == "turn_started"]
            assert started == [entry.turn for entry in log if entry.kind == "turn_ended"]
            logged = {entry.seq: entry for entry in log if entry.kind in ("update", "prompt")}
            for guest in guests:
                received, last = guest.received[session], max(logged)
                await until(lambda received=received, last=last: received[-1] >= last)  # type: ignore[misc]
                assert received == sorted(set(received)), "nothing twice, nothing out of order"
                missed = [seq for seq in logged.keys() - set(received) if logged[seq].kind == "update"]
                assert missed == []
        for guest in guests:
            await guest.go()
