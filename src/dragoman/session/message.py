"""One message of a session, built from its chunks; consecutive plain text is joined."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.update import (
    AgentMessage,
    AgentMessageChunk,
    AgentThought,
    AgentThoughtChunk,
    UserMessage,
    UserMessageChunk,
)

# The role that each kind of chunk belongs to.
ROLES: dict[type, str] = {AgentMessageChunk: "agent", AgentThoughtChunk: "thought", UserMessageChunk: "user"}

# The same for updates with a whole message.
WHOLE_ROLES: dict[type, str] = {AgentMessage: "agent", AgentThought: "thought", UserMessage: "user"}

# Text chunks kept separately before they are joined.
JOIN_AFTER = 1024


class Message:
    """A user message, an agent message or a thought."""

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
        self.is_local_prompt = is_local_prompt  # added by this client as a prompt, not received
        self._parts: list[Any] = list(content or ())  # str for plain text, blocks for other content
        self._unjoined = 0  # number of texts at the end that are not joined yet

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
        """The text of all blocks."""
        return "".join(part if type(part) is str else getattr(part, "text", "") for part in self._parts)

    @property
    def content(self) -> list[ContentBlock]:
        """The content blocks, with consecutive texts joined."""
        blocks: list[Any] = []
        for is_text, parts in groupby(self._parts, lambda part: type(part) is str):
            run = list(parts)
            blocks += [TextContent(text="".join(run))] if is_text else run
        return blocks

    def replace(self, message_id: str, content: list[Any]) -> None:
        """Set id and content, because the agent sent the message as a whole."""
        self.restart(message_id)
        for block in content:
            self.write(block)

    def is_echoed_by(self, block: Any) -> bool:
        """Return whether this block can be the start of an echo of this message."""
        if type(block) is TextContent:
            return bool(block.text) and self.text.startswith(block.text)
        return block in self._parts[:1]

    def restart(self, message_id: str | None) -> None:
        """Clear the content, because the agent sends the message again."""
        self.message_id = message_id
        self.is_local_prompt = False
        self._parts.clear()
        self._unjoined = 0

    def __repr__(self) -> str:
        excerpt = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return f"Message({self.role!r}, {excerpt!r})"
