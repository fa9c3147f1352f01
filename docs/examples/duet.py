"""One agent with two voices: `route` and `primary_agent` decide who answers, `auto_resume` whether one goes on."""

from dragoman import Agent, Option, Session, Turn

agent = Agent("duet", version="1.0", options=[Option.auto_resume()])


@agent.responder("claude")
async def claude(turn: Turn) -> None:
    await turn.say(f"claude: Certainly, {turn.text}. ")
    await count(turn)


@agent.responder("codex")
async def codex(turn: Turn) -> None:
    await turn.say(f"codex: Done, {turn.text}. ")
    await count(turn)


async def count(turn: Turn) -> None:
    answers = turn.session.state["answers"] = turn.session.state.get("answers", 0) + 1
    await turn.say(f"(answer {answers}) ")


@agent.on_session_forked
def forked(session: Session, origin: Session) -> None:
    """A session that goes on where another ended has its history and its settings; the rest is the author's."""
    session.state.update(origin.state)


if __name__ == "__main__":
    agent.run()
