"""An agent that requires a login before it opens a session. Each login expires after an hour."""

from datetime import timedelta
from typing import Any

from dragoman import Agent, Turn
from dragoman.schema.auth import AuthAccount

agent = Agent("login", version="1.0", auth_required=True, unstable=True)  # unstable: auth/status


@agent.authenticate("token", "With a token")
def check_token(credentials: dict[str, Any]) -> timedelta | bool:
    """Clients of 2025.1 and the draft send credentials. False refuses them."""
    return timedelta(hours=1) if credentials.get("token") == "s3cret" else False


@agent.authenticate("guest", "As a guest")
async def guest(credentials: dict[str, Any]) -> timedelta:
    """Official clients send only the method: open a browser here, read a keychain, or accept the local user."""
    return timedelta(hours=1)


@agent.list_accounts
def accounts() -> list[AuthAccount]:
    """Sent at login and logout, to clients that support it."""
    return [AuthAccount(label="guest")]


@agent.on_logout
def logout() -> None:
    """The library forgets the login. Delete stored credentials here."""


@agent.prompt
async def answer(turn: Turn) -> None:
    await turn.say("Welcome.")


if __name__ == "__main__":
    agent.run()
