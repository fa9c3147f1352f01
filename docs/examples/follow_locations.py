"""Show the file and the lines that the agent works on: `follow_locations.py COMMAND...`."""

import asyncio
import sys
from pathlib import Path

from dragoman import Location, connect


def show(place: Location) -> None:
    """Print the file and mark the lines. An editor would scroll to them."""
    print(f"{Path(place.path).name}, line {place.line or 1}")
    first, last = place.line or 1, place.end_line or place.line or 1
    for number, line in enumerate(Path(place.path).read_text().splitlines(), start=1):
        print(f"{'>' if first <= number <= last else ' '} {number} {line}")


async def main(command: list[str]) -> None:
    async with connect(command) as agent:
        session = await agent.open_session(cwd=".")
        session.on_location = show
        await session.ask("look around")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
