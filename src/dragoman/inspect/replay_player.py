"""Plays a Script to a peer over a transport, in its own time or as fast as the peer takes it.

Takes a script and a transport, gives what went wrong. The reader goes on while something waits to be said, so a cancel
is heard in the middle of a slow answer. Above is the command; below are script and transport.
"""

from __future__ import annotations

import asyncio

from dragoman.errors import ConnectionFailed
from dragoman.inspect.replay_script import ReplayScript, TimedFrame
from dragoman.transport.base import Transport
from dragoman.wire.frames import Oversize

# A peer that says nothing for so long, while the script waits for it, will not say it any more. Seconds.
REPLY_TIMEOUT = 30.0


async def play_script(
    script: ReplayScript,
    transport: Transport,
    *,
    initiates: bool,
    original_timing: bool,
    timeout: float | None = REPLY_TIMEOUT,
) -> list[str]:
    """Play to the end of the script (when we lead) or until the peer leaves; gives what went wrong."""
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def say(lines: list[TimedFrame]) -> None:
        now = loop.time()
        for line in lines:
            waiting.put_nowait((now + line.delay / 1e6 if original_timing else now, line.data))

    async def speak() -> None:
        while True:
            due, data = await waiting.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            transport.send(data)
            if transport.congested():
                await transport.drain()
            waiting.task_done()

    speaker = asyncio.ensure_future(speak())
    wrong: list[str] = []
    try:
        say(script.begin())
        while not wrong and not (initiates and not script.missing_messages()):
            try:
                async with asyncio.timeout(timeout if initiates else None):
                    frames = await transport.receive()
            except TimeoutError:
                wrong.append(f"waited {timeout:g} s in vain for {script.missing_messages()[0]}")
                break
            except ConnectionFailed as error:
                wrong += _disconnect_problems(script, error, initiates)
                break
            for frame in frames:
                reaction = script.receive(frame.head if isinstance(frame, Oversize) else frame)
                say(reaction.frames)
                if reaction.problem:
                    wrong.append(reaction.problem)
                    break
        finished = asyncio.ensure_future(waiting.join())
        await asyncio.wait([finished, speaker], return_when=asyncio.FIRST_COMPLETED)
        finished.cancel()
    finally:
        speaker.cancel()
        await asyncio.gather(speaker, return_exceptions=True)
    return wrong


def _disconnect_problems(script: ReplayScript, error: ConnectionFailed, initiates: bool) -> list[str]:
    missing = script.missing_messages()
    if missing and (script.strict or initiates):
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return [f"the peer left before it said {missing[0]}{more}: {error}"]
    return []
