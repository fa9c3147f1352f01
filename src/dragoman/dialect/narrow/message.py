"""Messages that an agent changes after it has said them, for clients that only append.

Chunks pass, and are noted by length and hash. A whole message adds what was not said yet; words that were taken back
cannot be, so a changed message is said again under a new id.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

from msgspec import UNSET

from dragoman.dialect.narrow.content import narrow_block
from dragoman.dialect.narrow.loss import Loss, LossReports
from dragoman.dialect.side_data import with_members, with_side_data
from dragoman.schema.base import encode
from dragoman.schema.content import TextContent
from dragoman.schema.update import (
    AgentMessage,
    AgentMessageChunk,
    AgentThought,
    AgentThoughtChunk,
    UserMessage,
    UserMessageChunk,
    WholeMessage,
)

# Messages that are remembered in a session; of more, the oldest are forgotten. Agents change the latest.
MAX_MESSAGES: Final = 1000

CHUNK_TYPES: Final[dict[type, type]] = {
    UserMessage: UserMessageChunk,
    AgentMessage: AgentMessageChunk,
    AgentThought: AgentThoughtChunk,
}


class _Message:
    """What the client was told of a message: how much, and its hash."""

    __slots__ = ("_hash", "count", "is_cleared", "length", "sent_id")

    def __init__(self, id: str) -> None:
        self.sent_id = id  # the client's id of it
        self.count = 1  # how often it was begun anew
        self.is_cleared = False
        self.forget_text()

    def forget_text(self) -> None:
        self.length = 0
        self._hash = blake2b(digest_size=16)

    def add(self, data: bytes) -> None:
        self.length += len(data)
        self._hash.update(data)

    def is_extended_by(self, parts: list[bytes]) -> bool:
        """Return whether what was told is the beginning of these parts."""
        found, left = blake2b(digest_size=16), self.length
        for part in parts:
            found.update(part[:left])
            left -= min(left, len(part))
            if not left:
                break
        return not left and found.digest() == self._hash.digest()


class Messages:
    """The messages of one session."""

    def __init__(self, losses: LossReports) -> None:
        self._losses = losses
        self._messages: dict[tuple[type, str], _Message] = {}
        self.is_replaying = False  # a message that is removed then is said again

    def forget(self) -> None:
        """Forget everything: the messages come again, perhaps with other ids."""
        self._messages.clear()

    def chunk(self, update: Any) -> list[Any]:
        """Return a piece of a message as the client gets it."""
        content = narrow_block(update.content, self._losses)
        if content is not update.content:
            update = with_members(update, content=content)
        id = update.message_id
        if not isinstance(id, str):
            return [update]
        message = self._message(type(update), id)
        if message.is_cleared:
            self._begin_anew(message, id)
        is_first = not message.length
        message.add(_data_of(update.content))
        return [_with_id(update, message, id, is_first)]

    def passes(self, chunk_type: type, id: str) -> bool:
        """Return whether pieces of a message pass as they are."""
        message = self._messages.get((chunk_type, id))
        return message is None or (message.sent_id == id and not message.is_cleared)

    def note_text(self, chunk_type: type, id: str, text: str) -> None:
        """Note a piece of text that passed as it is."""
        self._message(chunk_type, id).add(text.encode("utf-8", "surrogatepass"))

    def whole(self, update: WholeMessage) -> list[Any]:
        """Return what the client does not have yet of a whole message."""
        if update.content is UNSET:
            return []
        chunk_type, id = CHUNK_TYPES[type(update)], update.message_id
        message = self._message(chunk_type, id)
        blocks = [narrow_block(block, self._losses) for block in update.content or ()]
        parts = [_data_of(block) for block in blocks]
        if not any(parts):
            self._clear(message)
            return []
        if message.is_extended_by(parts):
            message.is_cleared = False  # what was removed is back
        else:
            self._begin_anew(message, id)
        updates: list[Any] = []
        told = message.length
        for block, data in zip(blocks, parts, strict=True):
            skipped, told = min(told, len(data)), told - min(told, len(data))
            if skipped == len(data):
                continue
            if skipped and type(block) is TextContent:
                block = with_members(block, text=data[skipped:].decode("utf-8", "surrogatepass"))
            chunk = chunk_type(content=block, message_id=id, meta=update.meta if not updates else UNSET)
            updates.append(_with_id(chunk, message, id, is_first=not message.length))
            message.add(data[skipped:])
        return updates

    def _message(self, chunk_type: type, id: str) -> _Message:
        message = self._messages.get((chunk_type, id))
        if message is None:
            message = self._messages[chunk_type, id] = _Message(id)
            if len(self._messages) > MAX_MESSAGES:
                del self._messages[next(iter(self._messages))]
        return message

    def _clear(self, message: _Message) -> None:
        if not message.length:
            return
        if self.is_replaying:
            message.forget_text()
        else:
            self._losses.add(Loss.REPLACED_MESSAGE)
            message.is_cleared = True

    def _begin_anew(self, message: _Message, id: str) -> None:
        self._losses.add(Loss.REPLACED_MESSAGE)
        message.count += 1
        message.sent_id = f"{id}~{message.count}"
        message.is_cleared = False
        message.forget_text()


def _with_id(chunk: Any, message: _Message, id: str, is_first: bool) -> Any:
    """Return a chunk with the client's id of the message; the first of a new one says which it replaces."""
    if message.sent_id == id:
        return chunk
    chunk = with_members(chunk, message_id=message.sent_id)
    return with_side_data(chunk, replaces=id) if is_first else chunk


def _data_of(block: Any) -> bytes:
    """Return what makes two blocks the same; texts are the same however they are cut into blocks."""
    if type(block) is TextContent:
        return block.text.encode("utf-8", "surrogatepass")
    return b"\0%b\0" % encode(block)
