"""An agent that adds each prompt as a line to notes.md, after the user has allowed it."""

from dragoman import Agent, Kind, ProtocolError, Turn

agent = Agent("notes", version="1.0")


@agent.prompt
async def add_note(turn: Turn) -> None:
    path = f"{turn.session.cwd}/notes.md"
    async with turn.tool("Add a note", kind="edit", paths=[path], input={"note": turn.text}) as call:
        old = await read(turn, path)
        new = f"{old or ''}- {turn.text}\n"
        await call.preview_diff(path, old, new)
        if not await call.ask_permission():
            await turn.say("Nothing saved.")
            return
        await turn.files.write(path, new)
    await turn.say("Saved.")


async def read(turn: Turn, path: str) -> str | None:
    try:
        return await turn.files.read(path)
    except ProtocolError as error:
        if error.kind == Kind.RESOURCE_NOT_FOUND:
            return None
        raise


if __name__ == "__main__":
    agent.run()
