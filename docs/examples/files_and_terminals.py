"""An agent that uses files and terminals: the client's, if the client offers them, or else its own."""

import shlex

from dragoman import Agent, Turn

agent = Agent("files-and-terminals", version="1.0")


@agent.prompt
async def write(turn: Turn) -> None:
    path = f"{turn.session.cwd}/page.txt"
    await turn.files.write(path, f"{turn.text}\n")
    ended = await turn.terminals.run("/bin/sh", ["-c", f"echo {shlex.quote(turn.text)} | wc -w"])
    whose = "yours" if turn.files.uses_client else "mine"
    await turn.say(f"{(await turn.files.read(path)).strip()}: {ended.output.strip()} words ({whose})")


if __name__ == "__main__":
    agent.run()
