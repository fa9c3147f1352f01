"""An agent with middleware, which sees every message first, and with a method of its own."""

from collections.abc import Awaitable, Callable
from typing import Any

from dragoman import Agent, Turn
from dragoman.engine.incoming import Incoming

agent = Agent("chain", version="1.0")
counts: dict[str, int] = {}


@agent.middleware
async def count(message: Incoming, pass_on: Callable[[], Awaitable[Any]]) -> Any:
    """Pass everything on, and write it down."""
    counts[message.method] = counts.get(message.method, 0) + 1
    return await pass_on()


@agent.middleware
async def refuse(message: Incoming, pass_on: Callable[[], Awaitable[Any]]) -> Any:
    """Claim what nobody else should answer."""
    if message.method == "session/prompt" and "secret" in str(message.params.prompt):
        return {"stopReason": "refusal"}
    return await pass_on()


@agent.on("_chain/counts")
def tell_counts(params: Any) -> dict[str, int]:
    return counts


@agent.prompt
async def answer(turn: Turn) -> None:
    await turn.say(f"message {counts['session/prompt']}")


if __name__ == "__main__":
    agent.run()
