"""RelayFunctions: the functions of one proxy on a relay, so that two peers of one dialect keep their own messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from msgspec import UNSET

from dragoman.engine.codec import decode_as
from dragoman.engine.incoming import DoneCallback, Handler, to_protocol_error
from dragoman.errors import ProtocolError
from dragoman.roles.proxy.call import Call
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.initialize import InitializeParams
from dragoman.schema.side import Side


class RelayFunctions:
    """Claims, requests and notifications of a proxy, on the two connections of a relay."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._starts: set[asyncio.Task[None]] = set()

    def claim(self, receiver: Side, method: str, handler: Handler) -> None:
        """Handle the calls of a method to `receiver` with this handler."""
        self._relay.claim(receiver, method, handler)

    def notify(self, receiver: Side, method: str, params: Any) -> Awaitable[None] | None:
        """Send a notification to a peer."""
        target = self._relay.connection_to(receiver)
        target.notify(method, params)
        outbox = target.sender.outbox
        return outbox.throttle() if outbox.should_throttle else None

    def request(self, receiver: Side, method: str, params: Any, done: DoneCallback, parent: Call | None = None) -> Call:
        """Send a request to a peer; `done` gets its result as JSON values. Forwarding initialize starts the agent."""
        call = Call(method, lambda envelope, error: done(None, error))
        if receiver is Side.AGENT and method == "initialize":
            task = asyncio.get_running_loop().create_task(self._start(params, done))
            self._starts.add(task)
            task.add_done_callback(self._starts.discard)
            call.hold(task)
            return call
        target = self._relay.connection_to(receiver)
        id = target.call(method, params, done, raw=True)
        if id is not UNSET:
            call.hold(_Sent(lambda: target.cancel_request(id, wait=True)))
        return call

    async def _start(self, params: Any, done: DoneCallback) -> None:
        try:
            done(await self._relay.start_agent(decode_as(InitializeParams, params), params), None)
        except Exception as error:
            done(None, error if isinstance(error, ProtocolError) else to_protocol_error(error))


class _Sent:
    def __init__(self, cancel: Any) -> None:
        self.cancel = cancel
