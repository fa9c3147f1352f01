"""Somebody who may be writing when a question comes: the line is taken away for it, and comes back.

A Person whose reader is told to step aside. Above is chat; below are questions and the editing line.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from dragoman.cli.editing import Reader
from dragoman.cli.questions import Choice, Person
from dragoman.cli.terminal import Line


class Interruptible(Person):
    """Somebody who may be writing when a question comes."""

    reader: Reader | None = None
    _attends = False

    async def choose(self, question: Sequence[Line], choices: Sequence[Choice]) -> str | None:
        """Ask; the line on which the person writes is taken away meanwhile."""
        async with self.attention():
            return await super().choose(question, choices)

    @asynccontextmanager
    async def attention(self) -> AsyncIterator[None]:
        """Have the terminal; the line on which the person writes is taken away meanwhile."""
        if self.reader is None or self._attends:
            yield
            return
        async with self.reader.aside():
            self._attends = True
            try:
                yield
            finally:
                self._attends = False
