"""ReopenedSessions: the sessions that a restarted proxy has to see again, because it may add something to each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Raw

from dragoman.engine.codec import json_values
from dragoman.engine.peer_info import offers
from dragoman.errors import ProtocolError
from dragoman.roles.proxy.call import Call
from dragoman.roles.proxy.link import Params
from dragoman.schema.base import encode
from dragoman.schema.methods import METHODS, methods_that
from dragoman.schema.side import Side
from dragoman.wire.envelope import Envelope, read_error

_OPENS = methods_that("opens", "forks", "reopens")
_ENDS = methods_that("ends")

# The last resort to open a session again.
_REPEATS_HISTORY = "session/load"

_REOPENING = sorted(methods_that("reopens"), key=lambda method: method == _REPEATS_HISTORY)

_KEPT_MEMBERS = ("cwd", "mcpServers", "additionalDirectories")


class ReopenedSessions:
    """The open sessions of a chain, as one proxy saw them being opened."""

    def __init__(self, send: Callable[[str, Params, Call], None]) -> None:
        self._send = send
        self._params: dict[str, dict[str, Any]] = {}  # by session id: the params to open it again
        self._reopening: set[str] = set()  # whose history is repeated

    def watch(self, method: str, params: Params, call: Call) -> Call:
        """Note the sessions that a call opens or ends; return the call to send in its place."""
        if method not in _OPENS and method not in _ENDS:
            return call
        given = json_values(params)
        if not isinstance(given, dict):
            return call

        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            if envelope is not None and envelope.result is not UNSET:
                result = json_values(envelope.result)
                session = (result.get("sessionId") if isinstance(result, dict) else None) or given.get("sessionId")
                if method in _ENDS:
                    self._params.pop(str(session), None)
                elif isinstance(session, str):
                    self._params[session] = {name: given[name] for name in _KEPT_MEMBERS if name in given}
            call.finish(envelope, error)

        inner = Call(method, answer, id=call.id, parent=call.parent)
        call.hold(inner)
        return inner

    def is_replay(self, method: str, params: Params) -> bool:
        """Whether an update repeats history only because its session is opened again."""
        if not self._reopening or method != "session/update":
            return False
        values = json_values(params)
        return isinstance(values, dict) and values.get("sessionId") in self._reopening

    async def reopen(self, initialized: Any, report: Callable[[str], None], name: str) -> None:
        """Open every session again through the proxy, if the agent can."""
        if not self._params:
            return
        capabilities = initialized.get("agentCapabilities") if isinstance(initialized, dict) else None
        can = [method for method in _REOPENING if offers(METHODS[Side.AGENT, method].gate, capabilities or {})]
        if not can:
            report(f"{name} does not know the open sessions: the agent cannot open them again")
            return
        self._reopening = set(self._params) if can[0] == _REPEATS_HISTORY else set()
        try:
            for session, params in list(self._params.items()):
                error = await self._reopen_one(can[0], {**params, "sessionId": session})
                if error:
                    report(f"{name} does not know the session {session}: {error}")
        finally:
            self._reopening = set()

    async def _reopen_one(self, method: str, params: dict[str, Any]) -> str:
        """Return the error, or an empty string."""
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            if answered.done():
                return
            if envelope is None:
                answered.set_result(error.message if error is not None else "cancelled")
            else:
                answered.set_result("" if envelope.error is UNSET else read_error(envelope.error).message)

        self._send(method, Raw(encode({"mcpServers": [], **params})), Call(method, answer))
        return await answered
