"""The prompts of one room, in the order they came: one runs, the others wait. No I/O.

Takes prompts with who said them, gives the next one; says which of them a cancel is about. Knows nothing of agents.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.errors import Kind, ProtocolError

# As much of a waiting prompt as the others are shown, in characters.
PREVIEW_LENGTH = 80


class QueuedPrompt(msgspec.Struct, eq=False):
    """One prompt: who said it, on which connection, and whoever waits for its end."""

    id: str
    user: str
    client_id: str
    prompt: list[Any]
    done: Any = None
    is_cancelled: bool = False

    @property
    def preview(self) -> str:
        """Its beginning, in one line."""
        said = " ".join(text for block in self.prompt if isinstance(text := getattr(block, "text", None), str))
        line = " ".join(said.split())
        return line if len(line) <= PREVIEW_LENGTH else line[: PREVIEW_LENGTH - 1] + "…"


class PromptQueue:
    """What is to be prompted in one room."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.running: QueuedPrompt | None = None
        self.waiting: list[QueuedPrompt] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing runs or waits."""
        return self.running is None and not self.waiting

    def add(self, prompt: QueuedPrompt) -> None:
        """One more prompt; rate_limited where too many wait already."""
        if len(self.waiting) >= self._limit:
            message = f"{self._limit} prompts are waiting in this session; try again when some of them are done"
            raise ProtocolError(Kind.RATE_LIMITED, message, {"limit": self._limit})
        self.waiting.append(prompt)

    def start_next(self) -> QueuedPrompt | None:
        """The one whose turn it is; None when nobody waits."""
        self.running = self.waiting.pop(0) if self.waiting else None
        return self.running

    def finish(self) -> None:
        """The running one is done."""
        self.running = None

    def prompts_of(self, client_id: str) -> list[QueuedPrompt]:
        """What this connection said and is not answered yet; the running one first."""
        return [one for one in (self.running, *self.waiting) if one is not None and one.client_id == client_id]

    def cancel(self, client_id: str, id: str | None = None) -> tuple[list[QueuedPrompt], QueuedPrompt | None]:
        """What somebody's cancel is about: their own prompts that wait, which leave; and the running one, if it is.

        Whoever has a prompt waiting behind somebody else's takes back their own and stops nobody. With an `id` it is
        about that prompt alone.
        """
        ours = [one for one in self.waiting if one.client_id == client_id and (id is None or one.id == id)]
        self.waiting = [one for one in self.waiting if one not in ours]
        running = self.running
        if running is None or (id is not None and running.id != id):
            return ours, None
        return ours, running if running.client_id == client_id or not ours else None

    def clear(self) -> list[QueuedPrompt]:
        """Everything that waits leaves."""
        left, self.waiting = self.waiting, []
        return left
