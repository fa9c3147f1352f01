"""The example of a remote agent: a client as a process, before an agent that is served over HTTP and WebSocket."""

from __future__ import annotations

import asyncio
import sys

import pytest

from dragoman.agents.everything.agent import everything
from tests.examples.run_example import EXAMPLES

WITHIN = 30.0


async def afar(*words: str) -> list[str]:
    """What `afar.py` prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLES / "afar.py"), *words, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode().splitlines()


@pytest.mark.parametrize("over", ["http", "ws"])
def test_a_client_talks_to_an_agent_at_an_url(over: str) -> None:
    async def main() -> list[str]:
        async with everything().serve_http() as served:
            return await afar(served.url.replace("http", over, 1))

    assert asyncio.run(asyncio.wait_for(main(), WITHIN)) == ["Is anybody there?"]


def test_an_agent_that_is_not_there_is_told_in_a_line() -> None:
    (line,) = asyncio.run(asyncio.wait_for(afar("ws://127.0.0.1:9/acp?token=s3cret"), WITHIN))
    assert line == "ws://127.0.0.1:9/acp?token=...: nobody listens there; is the server running?"
