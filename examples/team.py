"""A team of two agents of this process: one plans, one paints what the other planned."""

import asyncio

from dragoman import Agent, Team, Turn

planner, painter = Agent("planner"), Agent("painter")


@planner.prompt
async def plan(turn: Turn) -> None:
    await turn.say("1. the roof\n2. the door")


@painter.prompt
async def paint(turn: Turn) -> None:
    await turn.files.write(f"{turn.session.cwd}/{turn.text.split()[-1]}.txt", "red")
    await turn.say(f"painted {turn.text}")


async def main() -> None:
    async with Team(".", {"plan": planner, "paint": painter}, permission="allow") as team:
        steps = await team.ask("plan", "What is to be painted?")
        for answer in await team.all(*(("paint", step) for step in steps.parts)):
            print(answer)
        print(", ".join(sorted(path.rpartition("/")[2] for path in team.files())))


asyncio.run(main())
