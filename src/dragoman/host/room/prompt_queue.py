"""The prompts of one room, in order: one runs, the others wait. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.transport.remote.server.auth import Principal

# Characters of a waiting prompt that the other members see.
PREVIEW_LENGTH = 80


class QueuedPrompt(msgspec.Struct, eq=False):
    """One prompt, its user and connection, and the callback for its end."""

    id: str
    user: str
    client_id: str
    prompt: list[Any]
    done: Any = None
    principal: Principal | None = None  # who sent it, with which token
    is_cancelled: bool = False
    is_started: bool = False  # whether the log may have it
    is_sent: bool = False  # whether the log has it, and the agent got it

    def refuse(self, error: ProtocolError) -> None:
        """Cancel it, and answer it with this error however it ends."""
        done = self.done
        self.is_cancelled, self.done = True, lambda *_: done(None, error)

    @property
    def preview(self) -> str:
        """The start of the prompt, in one line."""
        texts = [text for block in self.prompt if isinstance(text := getattr(block, "text", None), str)]
        line = " ".join(" ".join(texts).split())
        return line if len(line) <= PREVIEW_LENGTH else line[: PREVIEW_LENGTH - 1] + "…"


def too_many_prompts(limit: int) -> ProtocolError:
    """Return the error for a prompt beyond the limit of a session."""
    message = f"{limit} prompts are waiting in this session; try again when some of them are done"
    return ProtocolError(Kind.RATE_LIMITED, message, {"limit": limit})


class PromptQueue:
    """The prompts of one room."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.running: QueuedPrompt | None = None
        self.waiting: list[QueuedPrompt] = []
        self.is_paused = False  # what waits is for another node: this one drains

    @property
    def is_empty(self) -> bool:
        """Whether nothing runs or waits."""
        return self.running is None and not self.waiting

    def add(self, prompt: QueuedPrompt) -> None:
        """Add a prompt. Raise rate_limited if too many wait already."""
        if len(self.waiting) >= self._limit:
            raise too_many_prompts(self._limit)
        self.waiting.append(prompt)

    def start_next(self) -> QueuedPrompt | None:
        """Start the next prompt and return it; None if none waits."""
        self.running = self.waiting.pop(0) if self.waiting and not self.is_paused else None
        return self.running

    def finish(self) -> None:
        """Note that the running prompt is done."""
        self.running = None

    def refuse(self, prompt: QueuedPrompt, error: ProtocolError) -> bool:
        """Answer a prompt with an error, the running one when its turn has ended. Return whether it runs."""
        prompt.refuse(error)
        if prompt in self.waiting:
            self.waiting.remove(prompt)
            prompt.done(None, None)
        return prompt is self.running

    @property
    def prompts(self) -> list[QueuedPrompt]:
        """The unanswered prompts, the running one first."""
        return [prompt for prompt in (self.running, *self.waiting) if prompt is not None]

    def find(self, id: str) -> QueuedPrompt | None:
        """Return the prompt with this id, if it runs or waits."""
        return next((prompt for prompt in self.prompts if prompt.id == id), None)

    def prompts_of(self, client_id: str) -> list[QueuedPrompt]:
        """Return the unanswered prompts of a connection, the running one first."""
        return [prompt for prompt in self.prompts if prompt.client_id == client_id]

    def cancel(self, client_id: str, id: str | None = None) -> tuple[list[QueuedPrompt], QueuedPrompt | None]:
        """Remove the waiting prompts that a cancel is about. Return them, and the running prompt if that is cancelled
        too.

        A client with a prompt waiting behind another's withdraws its own and stops nobody. With an `id` only that
        prompt is cancelled.
        """
        withdrawn = [
            prompt for prompt in self.waiting if prompt.client_id == client_id and (id is None or prompt.id == id)
        ]
        self.waiting = [prompt for prompt in self.waiting if prompt not in withdrawn]
        running = self.running
        if running is None or (id is not None and running.id != id):
            return withdrawn, None
        return withdrawn, running if running.client_id == client_id or not withdrawn else None

    def clear(self) -> list[QueuedPrompt]:
        """Remove and return all waiting prompts."""
        removed, self.waiting = self.waiting, []
        return removed
