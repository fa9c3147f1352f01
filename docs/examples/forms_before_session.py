"""An agent that asks the user during other requests, before a session exists: here at login and in session/new."""

from typing import Any

from dragoman import Agent, Session, Turn

agent = Agent("forms-before-session", version="1.0", auth_required=True)


@agent.authenticate("browser", "In a browser")
async def log_in(credentials: dict[str, Any]) -> bool:
    visited = await agent.elicit("Log in", url="https://login.example.org/device")
    if visited:
        visited.complete()  # the client can stop showing it
    return bool(visited)


@agent.on_session_opened
async def on_opened(session: Session) -> None:
    answer = await agent.elicit("Which language?", form={"language": ["english", "spanish"]})
    session.data["greeting"] = "Hola" if answer and answer["language"] == "spanish" else "Hello"


@agent.prompt
async def greet(turn: Turn) -> None:
    await turn.say(f"{turn.session.data['greeting']}!")


if __name__ == "__main__":
    agent.run()
