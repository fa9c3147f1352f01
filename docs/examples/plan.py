"""An agent that shows a plan and updates it after each step."""

from dragoman import Agent, Turn

agent = Agent("plan", version="1.0")


@agent.prompt
async def work(turn: Turn) -> None:
    plan = await turn.plan("read the question", "think about it")
    await plan.start(0)
    await plan.finish(0)
    await plan.add("answer")
    for step in (1, 2):
        await plan.start(step)
        await plan.finish(step)
    await turn.say(f"All {len(plan.entries)} steps are done.")


if __name__ == "__main__":
    agent.run()
