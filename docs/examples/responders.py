"""An agent with two responders. The options `route` and `primary_agent` choose who answers; `auto_resume` continues."""

from dragoman import Agent, Option, Session, Turn

agent = Agent("responders", version="1.0", options=[Option.auto_resume()])


@agent.responder("claude")
async def claude(turn: Turn) -> None:
    await turn.say(f"claude: Certainly, {turn.text}. ")
    await count(turn)


@agent.responder("codex")
async def codex(turn: Turn) -> None:
    await turn.say(f"codex: Done, {turn.text}. ")
    await count(turn)


async def count(turn: Turn) -> None:
    answers = turn.session.data["answers"] = turn.session.data.get("answers", 0) + 1
    await turn.say(f"(answer {answers}) ")


@agent.on_session_forked
def on_forked(session: Session, origin: Session) -> None:
    """The new session has the history and the options of its origin. Copy everything else here."""
    session.data.update(origin.data)


if __name__ == "__main__":
    agent.run()
