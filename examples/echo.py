"""An agent that repeats the prompt."""

from dragoman import Agent, Turn

agent = Agent("echo", version="1.0")


@agent.prompt
async def answer(turn: Turn) -> None:
    await turn.say(f"You said: {turn.text}")


agent.run()
