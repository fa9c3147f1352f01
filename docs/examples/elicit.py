"""Answer an agent's questions beyond permission: `elicit.py COMMAND...`."""

import asyncio
import sys

from dragoman import connect
from dragoman.schema.elicitation import CreateElicitationParams


def fill(question: CreateElicitationParams) -> dict[str, str]:
    """A form: its values. False would decline it, None close it."""
    print(f"The agent asks: {question.message}")
    return {"name": "Ada"}


def agree(question: CreateElicitationParams) -> bool:
    """A link: whether the user agrees to open it. It is shown whole, and opening it is theirs."""
    print(f"The agent wants you to visit {question.url}")
    return False


async def main(command: list[str]) -> None:
    async with connect(command, elicit={"form": fill, "url": agree}) as agent:
        session = await agent.open_session(cwd=".")
        print(await session.ask("hello"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
