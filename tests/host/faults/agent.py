"""The agent of a fault run: it answers each prompt with numbered pieces and sometimes a question.

    python -m tests.host.faults.agent [STORE]

With a store it keeps its sessions and can resume them; without one the host sends it the history.
"""

from __future__ import annotations

import asyncio
import random
import sys

from dragoman import Agent, Turn

# The pieces of an answer; each third one pauses, so that a turn lasts some tenths of a second. Seconds.
PIECES = (5, 60)
PAUSE = 0.01

# After this many of a hundred pieces the agent asks for permission.
QUESTIONS = 3

# This many of a hundred pieces are long, by this many characters, so that slow readers fall behind.
LONG, TAIL = 10, " " + "x" * 4000


def created(store: str | None) -> Agent:
    """Return the agent."""
    if store is None:
        agent = Agent("forgets")
    else:
        from dragoman.store.sqlite import SqliteStore

        agent = Agent("keeps", store=SqliteStore(store))

    @agent.prompt
    async def answer(turn: Turn) -> None:
        prompt = turn.text.split()[-1]
        dice = random.Random(prompt)
        for number in range(dice.randint(*PIECES)):
            await turn.say(f"{prompt}:{number}{TAIL if dice.randrange(100) < LONG else ' '}")
            if number % 3 == 0:
                await asyncio.sleep(dice.random() * PAUSE)
            if dice.randrange(100) < QUESTIONS:
                await turn.ask_permission(f"{prompt}?{number}")

    return agent


if __name__ == "__main__":
    created(sys.argv[1] if len(sys.argv) > 1 else None).run()
