"""An agent with middleware, which gets every message first, and with a custom method."""

from collections.abc import Awaitable, Callable
from typing import Any

from dragoman import Agent, Turn
from dragoman.engine.incoming import Incoming

agent = Agent("middleware", version="1.0")
counts: dict[str, int] = {}


@agent.middleware
async def count(message: Incoming, pass_on: Callable[[], Awaitable[Any]]) -> Any:
    """Count every message and pass it on."""
    counts[message.method] = counts.get(message.method, 0) + 1
    return await pass_on()


@agent.middleware
async def refuse(message: Incoming, pass_on: Callable[[], Awaitable[Any]]) -> Any:
    """Answer some prompts without calling the prompt handler."""
    if message.method == "session/prompt" and "secret" in str(message.params.prompt):
        return {"stopReason": "refusal"}
    return await pass_on()


@agent.on("_example/counts")
def get_counts(params: Any) -> dict[str, int]:
    return counts


@agent.prompt
async def answer(turn: Turn) -> None:
    await turn.say(f"message {counts['session/prompt']}")


if __name__ == "__main__":
    agent.run()
