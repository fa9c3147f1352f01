"""Files that are nowhere on the disk: serve the methods yourself, and agents are told: `virtual.py COMMAND...`."""

import asyncio
import sys

from dragoman import connect
from dragoman.schema.fs import ReadTextFileParams, ReadTextFileResult, WriteTextFileParams, WriteTextFileResult

pages: dict[str, str] = {}


def read(asked: ReadTextFileParams) -> ReadTextFileResult:
    return ReadTextFileResult(content=pages[asked.path].upper())


def write(asked: WriteTextFileParams) -> WriteTextFileResult:
    pages[asked.path] = asked.content
    return WriteTextFileResult()


async def main(command: list[str]) -> None:
    async with connect(command, on={"fs/read_text_file": read, "fs/write_text_file": write}) as agent:
        session = await agent.open_session(cwd=".")
        print(await session.ask("two words"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
