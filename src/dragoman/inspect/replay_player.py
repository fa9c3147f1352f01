"""Play a ReplayScript to a peer over a transport, with the recorded timing or as fast as possible.

Reading continues while frames wait to be sent, so a cancel arrives in the middle of a slow answer.
"""

from __future__ import annotations

import asyncio

from dragoman.errors import ConnectionFailed
from dragoman.inspect.replay_script import ReplayScript, TimedFrame
from dragoman.transport.base import Transport
from dragoman.wire.frames import Oversize

# Seconds to wait for an expected message of the peer.
REPLY_TIMEOUT = 30.0


async def play_script(
    script: ReplayScript,
    transport: Transport,
    *,
    initiates: bool,
    original_timing: bool,
    timeout: float | None = REPLY_TIMEOUT,
) -> list[str]:
    """Play to the end of the script (if we initiate) or until the peer disconnects; return the problems."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def enqueue(lines: list[TimedFrame]) -> None:
        now = loop.time()
        for line in lines:
            waiting.put_nowait((now + line.delay / 1e6 if original_timing else now, line.data))

    async def send_frames() -> None:
        while True:
            due, data = await waiting.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            transport.send(data)
            if transport.congested():
                await transport.drain()
            waiting.task_done()

    sender = asyncio.ensure_future(send_frames())
    problems: list[str] = []
    try:
        enqueue(script.begin())
        while not problems and not (initiates and not script.missing_messages()):
            try:
                async with asyncio.timeout(timeout if initiates else None):
                    frames = await transport.receive()
            except TimeoutError:
                problems.append(f"timed out after {timeout:g} s waiting for {script.missing_messages()[0]}")
                break
            except ConnectionFailed as error:
                problems += _disconnect_problems(script, error, initiates)
                break
            for frame in frames:
                reaction = script.receive(frame.head if isinstance(frame, Oversize) else frame)
                enqueue(reaction.frames)
                if reaction.problem:
                    problems.append(reaction.problem)
                    break
        finished = asyncio.ensure_future(waiting.join())
        await asyncio.wait([finished, sender], return_when=asyncio.FIRST_COMPLETED)
        finished.cancel()
    finally:
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
    return problems


def _disconnect_problems(script: ReplayScript, error: ConnectionFailed, initiates: bool) -> list[str]:
    missing = script.missing_messages()
    if missing and (script.strict or initiates):
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return [f"the peer disconnected before it sent {missing[0]}{more}: {error}"]
    return []
