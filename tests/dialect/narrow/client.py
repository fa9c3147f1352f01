"""A client that knows less than its agent tells: wide updates go in as JSON, what the client gets comes out as JSON."""

from __future__ import annotations

from typing import Any

from dragoman.dialect.narrow.client_view import ClientView
from dragoman.dialect.narrow.narrowing import CONTENT, TERMINALS, Narrowing
from dragoman.engine.codec import decode_as
from dragoman.schema.base import to_json
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.update import UpdateParams

SESSION = "s"


class NarrowClient:
    """What one client gets of one session."""

    def __init__(self, **view: Any) -> None:
        self.narrowing = Narrowing(ClientView(**view))
        self.reports: list[str] = []

    def update(self, tag: str, /, **members: Any) -> list[Any]:
        """The agent sends an update; what the client gets at once."""
        params = decode_as(UpdateParams, {"sessionId": SESSION, "update": {"sessionUpdate": tag, **members}})
        return self._seen(self.narrowing.updates(SESSION, params.update))

    def wait(self) -> list[Any]:
        """What the client gets a moment later."""
        return self._seen([each for kind in (CONTENT, TERMINALS) for each in self.narrowing.take(SESSION, kind)])

    def question(self, **members: Any) -> tuple[list[Any], Any]:
        """The agent asks; the updates before the question, and the question."""
        params = decode_as(RequestPermissionParams, {"sessionId": SESSION, "options": [], **members})
        updates, narrow = self.narrowing.question(params)
        return self._seen(updates), to_json(narrow)

    def losses(self) -> list[str]:
        """The names of what was lost since the last time."""
        names = [text.partition("(")[2].partition(")")[0] for text in self.reports if "(" in text]
        self.reports.clear()
        return names

    def _seen(self, updates: list[Any]) -> list[Any]:
        self.reports += self.narrowing.losses.take()
        return [to_json(update) for update in updates]


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


def content(words: str) -> dict[str, Any]:
    """A text among the contents of a tool call."""
    return {"type": "content", "content": text(words)}
