"""An agent that keeps notes: each prompt becomes a line of notes.md, once the user has allowed it."""

from dragoman import Agent, Kind, ProtocolError, Turn

agent = Agent("keeper", version="1.0")


@agent.prompt
async def keep(turn: Turn) -> None:
    path = f"{turn.session.cwd}/notes.md"
    async with turn.tool("Add a note", kind="edit", paths=[path]) as call:
        old = await read(turn, path)
        new = f"{old or ''}- {turn.text}\n"
        await call.preview_diff(path, old, new)
        if not await call.ask_permission():
            await turn.say("Then I keep nothing.")
            return
        await turn.files.write(path, new)
    await turn.say("Kept.")


async def read(turn: Turn, path: str) -> str | None:
    try:
        return await turn.files.read(path)
    except ProtocolError as error:
        if error.kind == Kind.RESOURCE_NOT_FOUND:
            return None
        raise


if __name__ == "__main__":
    agent.run()
