"""The measured agent written with Dragoman."""

from bench.peers.perform import Performer
from dragoman import Agent, Turn

agent = Agent("bench", version="1.0")
performer = Performer()


@agent.prompt
async def answer(turn: Turn) -> None:
    """Do what the prompt's text says."""
    await performer.perform(turn.text, turn.say, turn.files.read)


if __name__ == "__main__":
    agent.run()
