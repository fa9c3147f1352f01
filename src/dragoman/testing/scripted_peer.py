"""A peer controlled by a test, on either side of a transport: frame by frame, or by a scenario.

It sends its own messages, checks what it receives, and keeps the whole exchange, which every failure shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dragoman.testing.matching import exact_mismatch, mismatch
from dragoman.testing.scenario import Expectation, Step
from dragoman.transport.base import Transport
from dragoman.wire.frames import Oversize

# Seconds to wait for a frame.
TIMEOUT = 10.0


class ScriptedPeer:
    """One end of a transport, controlled by a test."""

    name = "we"
    peer_name = "the peer"

    def __init__(self, transport: Transport, timeout: float = TIMEOUT) -> None:
        self.transport = transport
        self.received: list[dict[str, Any]] = []
        self.exchange: list[str] = []
        """Everything sent and received, one line each, as failures show it."""
        self.timeout = timeout
        self._unread: list[Any] = []
        self._ids: dict[Any, Any] = {}
        self._generated: dict[str, str] = {}  # value in the script -> value that the peer chose

    def send(self, message: dict[str, Any] | bytes) -> None:
        """Send one message, or any bytes as a frame."""
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        self.exchange.append(f"-> {_line(data)}")
        self.transport.send(data)

    async def receive_frame(self) -> bytes:
        """Return the next frame unparsed; raises TimeoutError, and what the transport raises."""
        if not self._unread:
            async with asyncio.timeout(self.timeout):
                self._unread.extend(await self.transport.receive())
        frame = self._unread.pop(0)
        data: bytes = frame.head if isinstance(frame, Oversize) else frame
        self.exchange.append(f"<- {_line(data)}")
        return data

    async def receive(self) -> dict[str, Any]:
        """Return the next frame, parsed."""
        message: dict[str, Any] = msgspec.json.decode(await self.receive_frame())
        self.received.append(message)
        return message

    async def expect(self, **members: Any) -> dict[str, Any]:
        """Return the next frame, which must have these members (nested objects may have more)."""
        message = await self.receive()
        fault = mismatch(members, message)
        assert fault is None, f"expected {members}, received {message}: {fault}"
        return message

    async def request(self, id: Any, method: str, params: Any) -> dict[str, Any]:
        """Send a request and return its answer; other messages are in `received`."""
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        while True:
            message = await self.receive()
            if "method" not in message and message.get("id") == id:
                return message

    async def run_scenario(self, scenario: Sequence[Step], *, ignore: Sequence[Expectation] = ()) -> dict[str, Any]:
        """Play a scenario; messages in `ignore` may come at any time. Return the values of its variables.

        Raises ScenarioFailed, which shows what was expected, what was received and the whole exchange.
        """
        from dragoman.testing.scenario_runner import ScenarioRun

        return await ScenarioRun(self, ignore).play(scenario)

    async def play(
        self,
        role: str,
        script: Sequence[dict[str, Any]],
        compare: Callable[[Any, Any], str | None] | None = None,
        *,
        generated: Sequence[str] = (),
    ) -> None:
        """Play `role` of a script of {"from", "frame"} steps; `compare` compares frames (by default exactly).

        Members named in `generated` have values that the peer chooses (session ids, times): the first value received is
        expected and sent from then on.
        """
        compare = compare or exact_mismatch
        for step in script:
            frame = step["frame"]
            if step["from"] == role:
                self.send(self._renamed(self._with_real_id(frame)))
                continue
            heard = await self.receive()
            self._learn(frame, heard, generated)
            if "method" in frame and "id" in frame:
                assert "id" in heard, f"expected a request, received {heard}"
                self._ids[frame["id"]] = heard["id"]
            fault = compare(self._renamed(_without_id(frame)), _without_id(heard))
            assert fault is None, f"step {frame}\nreceived {heard}\n{fault}"

    def _learn(self, expected: Any, heard: Any, minted: Sequence[str]) -> None:
        if not isinstance(expected, dict) or not isinstance(heard, dict):
            return
        for name, value in expected.items():
            found = heard.get(name)
            if name in minted and isinstance(value, str) and isinstance(found, str):
                self._generated.setdefault(value, found)
            else:
                self._learn(value, found, minted)

    def _renamed(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._renamed(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._renamed(item) for item in value]
        return self._generated.get(value, value) if isinstance(value, str) else value

    def _with_real_id(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Give a reply the id of the peer's request."""
        if "method" in frame or "id" not in frame:
            return frame
        return {**frame, "id": self._ids.get(frame["id"], frame["id"])}


class ScriptedAgent(ScriptedPeer):
    """A scripted peer that plays the agent, for a client under test."""

    name, peer_name = "the scripted agent", "the client"


class ScriptedClient(ScriptedPeer):
    """A scripted peer that plays the client, for an agent under test."""

    name, peer_name = "the scripted client", "the agent"


def _without_id(frame: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in frame.items() if name != "id"}


def _line(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
