"""Retry after errors, at most three times: `recovery.py TEXT COMMAND...`."""

import asyncio
import sys

from dragoman import FailedAttempt, ProtocolError, Recovery, connect


def retry(failure: FailedAttempt) -> bool:
    """Whether to retry a request that needs the user. A program with a user interface would ask."""
    return failure.attempts < 2


async def main(text: str, command: list[str]) -> None:
    recovery = Recovery(
        max_attempts=3, initial_delay=0.01, on_failure=lambda failure: print(failure.explanation), confirm_retry=retry
    )
    async with connect(command) as agent:
        session = await agent.open_session(cwd=".")
        try:
            print((await session.ask(text, recovery=recovery)).strip())
        except ProtocolError as error:
            print(f"gave up: {error.kind}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
