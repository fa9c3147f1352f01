"""An agent that runs commands. It asks for permission, shows the output, and stops when the turn is cancelled."""

from dragoman import Agent, Turn

agent = Agent("ask-permission", version="1.0")


@agent.prompt
async def run(turn: Turn) -> None:
    async with turn.tool(f"Run {turn.text}", kind="execute", input={"command": turn.text}) as call:
        if not await call.ask_permission(reason="you asked for it"):
            await turn.say("Not allowed.")  # the tool call has the status denied
            return
        ended = await turn.terminals.run("/bin/sh", ["-c", turn.text])
        await call.add_text(ended.output)
        await call.finish("completed" if ended.exit_code == 0 else "failed")
    await turn.say(f"It ended with {ended.exit_code}.")


if __name__ == "__main__":
    agent.run()
