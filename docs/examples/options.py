"""An agent with settings: modes, models, options of every kind, and commands that depend on them."""

from typing import Any

from dragoman import Agent, Kind, Option, ProtocolError, Session, Turn
from dragoman.schema.config import SessionMode
from dragoman.schema.update import AvailableCommand

agent = Agent(
    "options",
    version="1.0",
    modes=[SessionMode(id="default", name="Default"), SessionMode(id="plan", name="Plan")],
    options=[
        Option.models(["sonnet", "opus"]),
        Option.select("style", {"Short": ["terse", "brief"], "Long": ["verbose"]}),
        Option.switch("color", True),
        Option.json_value("max_tokens", 4096),  # any JSON value, for clients that can send one
    ],
)


@agent.on_option_changed
def option_changed(session: Session, option: str, value: Any) -> None:
    """An error refuses the change, and the option keeps its value."""
    if option == "max_tokens" and not isinstance(value, int):
        raise ProtocolError(Kind.INVALID_PARAMS, "max_tokens is a number")


@agent.on_mode_changed
async def mode_changed(session: Session, mode: str) -> None:
    session.commands = [AvailableCommand(name="approve", description="Go ahead")] if mode == "plan" else []
    session.send_commands()


@agent.prompt
async def answer(turn: Turn) -> None:
    values = [f"{name}={turn.session.get_option(name)}" for name in ("model", "style", "color", "max_tokens")]
    await turn.set_title("Settings")
    await turn.say(f"{turn.session.mode}: {', '.join(values)}")
    if turn.session.mode == "plan":
        await turn.set_mode("default", reason="the plan is complete")


if __name__ == "__main__":
    agent.run()
