"""The agent of a fault run: it answers each prompt with numbered pieces and now and then a question.

    python -m tests.host.faults.agent [STORE]

With a store it keeps its sessions and can resume them; without one the host tells it what was said.
"""

from __future__ import annotations

import asyncio
import random
import sys

from dragoman import Agent, Turn

# So many pieces has an answer, and each third one makes a pause, so that a turn lasts some tenths of a second. Seconds.
PIECES = (5, 60)
PAUSE = 0.01

# Of a hundred pieces, after so many somebody is asked for leave.
QUESTIONS = 3

# Of a hundred pieces so many are long, by so many characters: who does not read them soon has much to read.
LONG, TAIL = 10, " " + "x" * 4000


def made(store: str | None) -> Agent:
    """The agent."""
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
    made(sys.argv[1] if len(sys.argv) > 1 else None).run()
