"""An agent that tells what it costs, what else the user should know, and how it shortens its history."""

from dragoman import Agent, Turn

agent = Agent("bookkeeper", version="1.0")


@agent.prompt
async def answer(turn: Turn) -> None:
    await turn.report_usage(input_tokens=1200, output_tokens=300, context_used=7900, context_size=8000, cost=0.02)
    await turn.send_notice("The context is nearly full", severity="warning")
    async with turn.compaction() as work:  # clients that did not ask for these two do not hear of them
        await work.add_summary("We talked about books.")
    await turn.report_usage(context_used=400, context_size=8000)
    await turn.say("The books are in order.")


if __name__ == "__main__":
    agent.run()
