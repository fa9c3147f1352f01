"""An agent that streams two messages at once: chunks with the same id belong to one message."""

from dragoman import Agent, Turn

agent = Agent("messages", version="1.0")


@agent.prompt
async def count(turn: Turn) -> None:
    await turn.think("Both languages at the same time.")
    english, spanish = turn.message(), turn.message()
    for one, uno in (("one ", "uno "), ("two ", "dos "), ("three", "tres")):
        await english.say(one)
        await spanish.say(uno)


if __name__ == "__main__":
    agent.run()
