"""A message with an id, as an agent's author writes it: pieces that belong together whatever is said in between.

Made by `turn.message`. Each piece carries the id, so that clients put it where it belongs, also when the session is
loaded again; dialects without ids hear the pieces in the order they were said. An agent that does not stream tells the
message whole, when it is finished or the turn ends.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.update import AgentMessageChunk, AgentThoughtChunk

if TYPE_CHECKING:
    from dragoman.roles.agent.turn import Turn


class Saying:
    """One message of an agent: `async with turn.message() as message: await message.say("...")`."""

    def __init__(self, turn: Turn, id: str, kind: type[AgentMessageChunk] | type[AgentThoughtChunk]) -> None:
        self.turn = turn
        self.id = id
        self.kind = kind
        self._unsaid: list[str] = []

    async def say(self, text: str | ContentBlock) -> None:
        """Say a piece of the message: text (Markdown) or any content block."""
        if isinstance(text, str):
            if not self.turn.session.streams:
                self._unsaid.append(text)
                return
            text = TextContent(text=text)
        self.finish()
        await self.turn.update(self._chunk(text))

    def finish(self) -> None:
        """The message is whole: what was held back is told; nothing happens where messages are streamed."""
        if self._unsaid:
            text = "".join(self._unsaid)
            self._unsaid.clear()
            self.turn.session.push(self._chunk(TextContent(text=text)))

    def _chunk(self, block: Any) -> Any:
        return self.kind(content=block, message_id=self.id)

    async def __aenter__(self) -> Saying:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()
