"""A request on its way through a chain: who waits for its answer, and which component has it now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec import Raw

from dragoman.errors import ProtocolError
from dragoman.wire.envelope import Envelope, Id

# Gets the answer: the envelope as the component sent it, or an error of ours.
Answer = Callable[[Envelope | None, ProtocolError | None], None]

# How many passes of the event loop the functions of a chain may take from an answer to their own answer before later
# messages overtake it. A function that only awaits its forwarded request needs one.
ANSWER_PASSES = 32


class Holder(Protocol):
    """The component that has a call now."""

    def cancel(self) -> object:
        """Ask it to end the call; it still answers."""


class Call:
    """A request between two components of a chain."""

    __slots__ = ("_answer", "_holder", "id", "is_cancelled", "is_open", "method", "parent")

    def __init__(self, method: str, answer: Answer, *, id: Id = None, parent: Call | None = None) -> None:
        """`id` is the sender's id of it; `parent` is the call that a function handles by making this one."""
        self.method = method
        self.id = id
        self.parent = parent
        self.is_open = True
        self.is_cancelled = False
        self._answer = answer
        self._holder: Holder | None = None

    def hold(self, holder: Holder) -> Holder | None:
        """Note which component has the call from now on; return the one before."""
        before, self._holder = self._holder, holder
        if self.is_cancelled:
            holder.cancel()
        return before

    def give_back(self, holder: Holder | None) -> None:
        """Note that the call is with an earlier holder again."""
        if self.is_open:
            self._holder = holder

    def finish(self, envelope: Envelope | None, error: ProtocolError | None) -> None:
        """Answer the call; later answers are ignored."""
        if self.is_open:
            self.is_open = False
            self._holder = None
            self._answer(envelope, error)

    def cancel(self) -> None:
        """Cancel the call at the component that has it; its answer still comes."""
        if self.is_open and not self.is_cancelled:
            self.is_cancelled = True
            if self._holder is not None:
                self._holder.cancel()

    def drop(self) -> None:
        """Cancel the call because nobody waits for it any more."""
        self._answer = _ignore
        self.cancel()

    @property
    def root(self) -> Call:
        """The call of a component outside this process that all this is for."""
        call = self
        while call.parent is not None:
            call = call.parent
        return call


class PassedError(ProtocolError):
    """The error of another component, with its own JSON, which is passed on as it is."""

    def __init__(self, error: ProtocolError, raw: Raw) -> None:
        super().__init__(error.kind, error.message, error.data, code=error.code)
        self.raw = raw


def _ignore(envelope: Envelope | None, error: ProtocolError | None) -> None:
    pass


async def wait_for_functions(call: Call) -> None:
    """Let the functions that wait for an answer give theirs, so that no later message overtakes it."""
    for _ in range(ANSWER_PASSES):
        if not call.is_open:
            return
        await asyncio.sleep(0)
