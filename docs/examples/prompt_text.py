"""An agent that gets the whole prompt as one text: context joined, links read, images described."""

from dragoman import Agent, Turn

agent = Agent("prompt-text", version="1.0", image=True, audio=True)


@agent.prompt
async def answer(turn: Turn) -> None:
    blocks = len(turn.prompt)  # the raw prompt, block by block
    await turn.say(f"{blocks} blocks:\n{await turn.prompt_text()}")


if __name__ == "__main__":
    agent.run()
