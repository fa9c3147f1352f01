"""An agent that repeats what it hears."""

from dragoman import Agent, Turn

agent = Agent("parrot", version="1.0")


@agent.prompt
async def answer(turn: Turn) -> None:
    await turn.say(f"You said: {turn.text}")


agent.run()
