"""An agent that reports usage and cost, sends a notice, and compacts its history."""

from dragoman import Agent, Turn

agent = Agent("usage", version="1.0")


@agent.prompt
async def answer(turn: Turn) -> None:
    await turn.report_usage(input_tokens=1200, output_tokens=300, context_used=7900, context_size=8000, cost=0.02)
    await turn.send_notice("The context is nearly full", severity="warning")
    async with turn.compaction() as work:  # only clients that announced support get these two
        await work.add_summary("The user asked about invoices.")
    await turn.report_usage(context_used=400, context_size=8000)
    await turn.say("Done.")


if __name__ == "__main__":
    agent.run()
