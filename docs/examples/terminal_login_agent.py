"""An agent that requires a login in a terminal. Started with --login, it logs the user in."""

import sys
from pathlib import Path

from dragoman import Agent, Kind, ProtocolError, Session, Turn
from dragoman.schema.auth import AuthMethod

TOKEN = Path("token.txt")

if __name__ == "__main__" and "--login" in sys.argv:
    print("You are logged in.")
    TOKEN.write_text("secret")
    sys.exit(0)

method = AuthMethod(id="terminal", name="In a terminal", type="terminal", args=["--login"])
agent = Agent("terminal-login-agent", version="0.1", auth_methods=[method])


@agent.on_session_opened
def check(session: Session) -> None:
    if not TOKEN.exists():
        raise ProtocolError(Kind.AUTH_REQUIRED, "log in first")


@agent.prompt
async def answer(turn: Turn) -> None:
    await turn.say("Ready.")


if __name__ == "__main__":
    agent.run()
