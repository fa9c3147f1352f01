"""An agent that asks the user to fill in a form, then to open a link."""

from dragoman import Agent, Turn

agent = Agent("forms", version="0.1")


@agent.prompt
async def ask(turn: Turn) -> None:
    answer = await turn.elicit("Who are you?", form={"name": str})
    await turn.say(f"Hello, {answer.content['name']}. " if answer else "Hello. ")
    confirmed = await turn.elicit("Confirm your address", url="https://accounts.example.org/confirm")
    await turn.say("Thank you." if confirmed else "Not confirmed.")


if __name__ == "__main__":
    agent.run()
