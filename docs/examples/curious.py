"""An agent that asks who it talks to, with a form and then with a link."""

from dragoman import Agent, Turn

agent = Agent("curious", version="0.1")


@agent.prompt
async def ask(turn: Turn) -> None:
    answer = await turn.elicit("Who are you?", form={"name": str})
    await turn.say(f"Hello, {answer.content['name']}. " if answer else "Hello, stranger. ")
    signed = await turn.elicit("Sign the guest book", url="https://guests.example.org/sign?from=curious")
    await turn.say("Thank you." if signed else "Another time, then.")


if __name__ == "__main__":
    agent.run()
