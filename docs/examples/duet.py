"""An agent in front of two others, with the options of seed 003: auto_resume, route, primary_agent."""

from dragoman import Agent, Option, Session, Turn

VOICES = {"claude": "Certainly", "codex": "Done"}

agent = Agent(
    "duet",
    version="1.0",
    options=[
        Option.select("auto_resume", ["on", "off"], description="Go on where the last session of this folder ended"),
        Option.select("route", ["primary", "duet"], description="Who answers: one, or both in turn"),
        Option.select("primary_agent", list(VOICES), description="Who answers alone, or first"),
    ],
)


@agent.opened
def opened(session: Session) -> None:
    """Where the session before it in this folder was set to go on, its notes are known here too."""
    before = [each for each in agent.sessions.values() if each.cwd == session.cwd and each is not session]
    if before and before[-1].option("auto_resume") == "on":
        session.state.update(before[-1].state)


@agent.prompt
async def answer(turn: Turn) -> None:
    first = turn.session.option("primary_agent")
    others = [voice for voice in VOICES if voice != first] if turn.session.option("route") == "duet" else []
    for voice in (first, *others):
        await turn.say(f"{voice}: {VOICES[voice]}, {turn.text}. ")
    turns = turn.session.state["turns"] = turn.session.state.get("turns", 0) + 1
    await turn.say(f"(turn {turns})")


if __name__ == "__main__":
    agent.run()
