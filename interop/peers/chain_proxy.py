"""A proxy of ours for chains of any conductor: puts `*` before each text chunk."""

from __future__ import annotations

from dragoman import Forward, Proxy
from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk, UpdateParams

proxy = Proxy("star")


@proxy.from_agent("session/update")
async def mark(params: UpdateParams, forward: Forward[None]) -> None:
    """Put the mark before a chunk."""
    if isinstance(params.update, AgentMessageChunk) and isinstance(params.update.content, TextContent):
        params.update.content.text = f"*{params.update.content.text}"
    await forward(params)


if __name__ == "__main__":
    proxy.run()
