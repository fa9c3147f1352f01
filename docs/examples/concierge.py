"""An agent that asks before there is a session: a question may be about any request, here the login and session/new."""

from typing import Any

from dragoman import Agent, Session, Turn

agent = Agent("concierge", version="1.0", auth_required=True)


@agent.authenticate("browser", "In a browser")
async def sign_in(credentials: dict[str, Any]) -> bool:
    visited = await agent.elicit("Sign in, please", url="https://login.example.org/device")
    if visited:
        visited.complete()  # the client need not show it any longer
    return bool(visited)


@agent.on_session_opened
async def opened(session: Session) -> None:
    answer = await agent.elicit("Which language?", form={"language": ["english", "spanish"]})
    session.state["greeting"] = "Hola" if answer and answer["language"] == "spanish" else "Hello"


@agent.prompt
async def greet(turn: Turn) -> None:
    await turn.say(f"{turn.session.state['greeting']}!")


if __name__ == "__main__":
    agent.run()
