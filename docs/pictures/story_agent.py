"""The agent in the pictures of the full-screen terminal: it tells one short story, the same every time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman import Agent, Turn
from dragoman.schema.toolcall import ToolCallLocation

agent = Agent("story", version="1.0", title="Story")

OLD = '''\
def lines(text: str) -> list[str]:
    """Return the lines of a text."""
    out, rest = [], text.split("\\n")[:-1]
    return [line for line in rest]
'''
NEW = '''\
def lines(text: str) -> list[str]:
    """Return the lines of a text."""
    out, rest = [], text.splitlines()
    for line in rest:
        out.append(line.rstrip("\\r"))
    return out  # the last one too
'''
STEPS = ("Find where the line is lost", "Fix the reader", "Run the tests", "Write the changelog")


@agent.prompt
async def answer(turn: Turn) -> None:
    """Tell the story."""
    await turn.think("A file without a newline at its end loses its last line. The slice drops the last piece.")
    plan = await turn.plan(*STEPS)
    await plan.start(0)
    await turn.say("The reader drops whatever stands after the last newline. Two places matter:\n\n")
    await turn.say(
        "1. `lines()` cuts the last piece off\n2. `tests/test_lines.py` has no file **without** a newline\n\n"
    )
    await turn.say("```python\nrest = text.split('\\n')[:-1]  # loses the end\n```\n")
    path = str(Path(turn.session.cwd) / "src" / "lines.py")
    async with turn.tool("Search lines(", kind="search") as call:
        await call.add_text("src/lines.py:1\ntests/test_lines.py:4")
    await plan.finish(0)
    await plan.start(1)
    async with turn.tool("Edit src/lines.py", kind="edit", paths=[ToolCallLocation(path=path, line=3)]) as call:
        await call.preview_diff(path, OLD, NEW)
        if not await call.ask_permission():
            return
        await turn.files.write(path, NEW)
    await plan.finish(1)
    await plan.start(2)
    async with turn.tool("Run pytest -q tests/test_lines.py", kind="execute") as call:
        await asyncio.sleep(0.4)
        await call.add_text("......\n6 passed in 0.31s")
    await turn.say("All 6 pass now. I will write the changelog next.")
    await plan.finish(2)
    await plan.start(3)


if __name__ == "__main__":
    agent.run()
