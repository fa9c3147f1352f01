"""Recover from errors, a bounded number of times: `recover.py TEXT COMMAND...`."""

import asyncio
import sys

from dragoman import FailedAttempt, ProtocolError, Recovery, connect


def retry(trouble: FailedAttempt) -> bool:
    """Whether to try again what only a person may allow; a program with a face would ask."""
    return trouble.attempts < 2


async def main(text: str, command: list[str]) -> None:
    recovery = Recovery(
        max_attempts=3, initial_delay=0.01, on_failure=lambda trouble: print(trouble.explanation), confirm_retry=retry
    )
    async with connect(command) as agent:
        session = await agent.open_session(cwd=".")
        try:
            print((await session.ask(text, recovery=recovery)).strip())
        except ProtocolError as error:
            print(f"gave up: {error.kind}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
