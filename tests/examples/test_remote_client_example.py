"""The example client for a remote agent, run as a process, with an agent on HTTP and WebSocket."""

from __future__ import annotations

import asyncio
import sys

import pytest

from dragoman.agents.everything.agent import everything
from tests.examples.run_example import EXAMPLES

WITHIN = 90.0


async def run_client(*words: str) -> list[str]:
    """The lines that `remote_agent.py` prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLES / "remote_agent.py"), *words, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode().splitlines()


@pytest.mark.parametrize("over", ["http", "ws"])
def test_a_client_talks_to_an_agent_at_a_url(over: str) -> None:
    async def main() -> list[str]:
        async with everything().serve_http() as served:
            return await run_client(served.url.replace("http", over, 1))

    assert asyncio.run(asyncio.wait_for(main(), WITHIN)) == ["Are you there?"]


def test_an_unreachable_agent_is_reported_in_one_line() -> None:
    (line,) = asyncio.run(asyncio.wait_for(run_client("ws://127.0.0.1:9/acp?token=s3cret"), WITHIN))
    assert line == "ws://127.0.0.1:9/acp?token=...: connection refused; is the server running?"
