"""An agent that wants to know who it works for: no session without a login, and each login ends after an hour."""

from datetime import timedelta
from typing import Any

from dragoman import Agent, Turn
from dragoman.schema.auth import AuthAccount

agent = Agent("doorman", version="1.0", auth_required=True, unstable=True)  # unstable: tells who is logged in


@agent.authenticate("token", "With a token")
def check_token(credentials: dict[str, Any]) -> timedelta | bool:
    """2025.1 and the draft send credentials along; False refuses them."""
    return timedelta(hours=1) if credentials.get("token") == "let me in" else False


@agent.authenticate("visit", "As a visitor")
async def visit(credentials: dict[str, Any]) -> timedelta:
    """Official clients only name a method: open a browser here, ask a keychain, or trust the user of this machine."""
    return timedelta(hours=1)


@agent.list_accounts
def accounts() -> list[AuthAccount]:
    """Told whenever a login begins or ends, to clients that take such news."""
    return [AuthAccount(label="visitor")]


@agent.on_logout
def logout() -> None:
    """The library forgets the login; here is the place to forget what is stored."""


@agent.prompt
async def answer(turn: Turn) -> None:
    await turn.say("Welcome.")


if __name__ == "__main__":
    agent.run()
