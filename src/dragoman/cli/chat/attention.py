"""Somebody who may be writing when a question comes: the line is taken away for it, and comes back.

A Person whose reader is told to step aside. Above is chat; below are questions and the editing line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext

from dragoman.cli.chat.line_editor import Reader
from dragoman.cli.ui.key_prompt import Choice, Person
from dragoman.cli.ui.terminal import Line, Sheet


class Interruptible(Person):
    """Somebody who may be writing when a question comes."""

    reader: Reader | None = None

    def __init__(self, sheet: Sheet, fd: int) -> None:
        super().__init__(sheet, fd)
        self._free = asyncio.Event()  # not while something is asked
        self._free.set()

    async def choose(self, question: Sequence[Line], choices: Sequence[Choice]) -> str | None:
        """Ask; the line on which the person writes is taken away meanwhile."""
        async with self.attention():
            return await super().choose(question, choices)

    @asynccontextmanager
    async def attention(self) -> AsyncIterator[None]:
        """Have the terminal; the line on which the person writes is taken away meanwhile."""
        if not self._free.is_set():
            yield
            return
        async with nullcontext() if self.reader is None else self.reader.aside():
            self._free.clear()
            try:
                yield
            finally:
                self._free.set()

    async def undisturbed(self) -> None:
        """Wait until nothing is asked: the keys would go to the line that begins now, and not to the question."""
        while not self._free.is_set():
            await self._free.wait()
