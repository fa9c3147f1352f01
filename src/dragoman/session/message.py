"""One message of a conversation, put together from its chunks.

Takes content blocks, gives them back with runs of plain text joined. Texts are kept in pieces and joined as they grow
many, for a long answer should cost what its text costs. Above: minutes.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.update import AgentMessageChunk, AgentThoughtChunk, UserMessageChunk

# Who speaks in which kind of chunk.
ROLES: dict[type, str] = {AgentMessageChunk: "agent", AgentThoughtChunk: "thought", UserMessageChunk: "user"}

# Pieces of a text that are kept apart before they are joined.
JOIN_AFTER = 1024


class Message:
    """What somebody said (or thought), from first to last chunk."""

    __slots__ = ("_parts", "_unjoined", "is_local_prompt", "message_id", "role")

    def __init__(
        self,
        role: str,
        message_id: str | None = None,
        content: list[Any] | None = None,
        *,
        is_local_prompt: bool = False,
    ) -> None:
        self.role = role  # user | agent | thought
        self.message_id = message_id
        self.is_local_prompt = is_local_prompt  # we put it there ourselves: a prompt
        self._parts: list[Any] = list(content or ())  # str for chunks of plain text, blocks for the rest
        self._unjoined = 0  # how many texts at the end are not joined

    def write(self, block: Any) -> None:
        """Add a chunk."""
        if type(block) is not TextContent or block.meta or block.annotations:
            self._parts.append(block)
            self._unjoined = 0
            return
        self.write_text(block.text)

    def write_text(self, text: str) -> None:
        """Add plain text."""
        self._parts.append(text)
        self._unjoined += 1
        if self._unjoined >= JOIN_AFTER:
            self._parts[-JOIN_AFTER:] = ["".join(self._parts[-JOIN_AFTER:])]
            self._unjoined = 0

    @property
    def text(self) -> str:
        """All its text."""
        return "".join(part if type(part) is str else getattr(part, "text", "") for part in self._parts)

    @property
    def content(self) -> list[ContentBlock]:
        """Its blocks; texts that follow each other are one."""
        blocks: list[Any] = []
        for is_text, parts in groupby(self._parts, lambda part: type(part) is str):
            found = list(parts)
            blocks += [TextContent(text="".join(found))] if is_text else found
        return blocks

    def is_echoed_by(self, block: Any) -> bool:
        """Whether this block could be the beginning of an echo."""
        if type(block) is TextContent:
            return bool(block.text) and self.text.startswith(block.text)
        return block in self._parts[:1]

    def restart(self, message_id: str | None) -> None:
        """Somebody says it again, and is to be believed: begin anew."""
        self.message_id = message_id
        self.is_local_prompt = False
        self._parts.clear()
        self._unjoined = 0

    def __repr__(self) -> str:
        shown = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return f"Message({self.role!r}, {shown!r})"
