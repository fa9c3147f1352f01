"""The agent of a kill run: it answers each prompt with numbered pieces and some questions.

    python -m tests.store.kill_run.agent FOLDER NAME

It stores its sessions. The client starts it. It reports its start and the answered questions to the recorder.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

from dragoman import Agent, Turn
from dragoman.store.sqlite import SqliteStore
from tests.store.kill_run.paths import AGENT_FILE, store_file
from tests.store.kill_run.report import RecordWriter

# So many pieces has an answer; few enough to end before the kill now and then. Each third one makes a pause, so that a
# turn lasts some tenths of a second and commits have different sizes. Seconds.
PIECES = (10, 100)
PAUSE = 0.006


# Of a hundred pieces, after so many the client is asked for leave.
QUESTIONS = 4


def create_agent(folder: str, name: str, records: RecordWriter) -> Agent:
    """The agent with its store."""
    agent = Agent("streamer", store=SqliteStore(store_file(folder, AGENT_FILE)))
    dice = random.Random(name)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        for number in range(dice.randint(*PIECES)):
            await turn.say(f"{turn.text}:{number} ")
            if number % 3 == 0:
                await asyncio.sleep(dice.random() * PAUSE)
            if dice.randrange(100) < QUESTIONS:
                question = f"{turn.text}?{number}"
                await turn.ask_permission(question)
                records.say("heard", question)

    return agent


if __name__ == "__main__":
    records = RecordWriter(os.environ["KILLING_RECORDER"], "agent", sys.argv[2])
    create_agent(sys.argv[1], sys.argv[2], records).run()
