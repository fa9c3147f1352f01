"""An agent with hooks for on_opened, on_forked and on_deleted sessions, and with system prompts."""

from dragoman import Agent, Session, Turn

agent = Agent("session-hooks", version="1.0", system_prompt_mode="override", unstable=True)


@agent.on_session_opened
async def on_opened(session: Session) -> None:
    session.data["pages"] = []


@agent.on_session_forked
async def on_forked(session: Session, origin: Session) -> None:
    session.data["pages"] = list(origin.data["pages"])


@agent.on_session_deleted
def on_deleted(session: Session) -> None:
    session.data.clear()


@agent.prompt
async def answer(turn: Turn) -> None:
    pages = turn.session.data["pages"]
    pages.append(turn.text)
    instructions = turn.session.system_prompt or "none"
    await turn.say(f"{len(pages)} pages in {len(turn.session.roots)} folders; instructions: {instructions}")


if __name__ == "__main__":
    agent.run()
