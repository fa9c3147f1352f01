"""Serve files that are not on disk with your own functions: `virtual_files.py COMMAND...`."""

import asyncio
import sys

from dragoman import connect
from dragoman.schema.fs import ReadTextFileParams, ReadTextFileResult, WriteTextFileParams, WriteTextFileResult

pages: dict[str, str] = {}


def read(params: ReadTextFileParams) -> ReadTextFileResult:
    return ReadTextFileResult(content=pages[params.path].upper())


def write(params: WriteTextFileParams) -> WriteTextFileResult:
    pages[params.path] = params.content
    return WriteTextFileResult()


async def main(command: list[str]) -> None:
    async with connect(command, on={"fs/read_text_file": read, "fs/write_text_file": write}) as agent:
        session = await agent.open_session(cwd=".")
        print(await session.ask("two words"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
