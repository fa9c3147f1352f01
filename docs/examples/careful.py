"""An agent that runs commands: it says why, asks first, shows what was printed, and stops when it is told to."""

from dragoman import Agent, Turn

agent = Agent("careful", version="1.0")


@agent.prompt
async def run(turn: Turn) -> None:
    async with turn.tool(f"Run {turn.text}", kind="execute", input={"command": turn.text}) as call:
        if not await call.ask_permission(reason="you asked for it"):
            await turn.say("Then I leave it.")  # and the call is denied
            return
        ended = await turn.terminals.run("/bin/sh", ["-c", turn.text])
        await call.add_text(ended.output)
        await call.finish("completed" if ended.exit_code == 0 else "failed")
    await turn.say(f"It ended with {ended.exit_code}.")


if __name__ == "__main__":
    agent.run()
