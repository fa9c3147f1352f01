"""Fill in the forms of an agent and answer its requests to open a link: `answer_forms.py COMMAND...`."""

import asyncio
import sys

from dragoman import connect
from dragoman.schema.elicitation import CreateElicitationParams


def fill(question: CreateElicitationParams) -> dict[str, str]:
    """The values of a form. False declines the form, None closes it."""
    print(f"The agent asks: {question.message}")
    return {"name": "Ada"}


def agree(question: CreateElicitationParams) -> bool:
    """Whether the user agrees to open a link. Show the complete URL, and let the user open it."""
    print(f"The agent wants you to visit {question.url}")
    return False


async def main(command: list[str]) -> None:
    async with connect(command, elicit={"form": fill, "url": agree}) as agent:
        session = await agent.open_session(cwd=".")
        print(await session.ask("hello"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
