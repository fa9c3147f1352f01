"""ProxyProcess: a proxy of a chain in its own process: its handshake, and what happens when it ends."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from msgspec import UNSET, Raw

from dragoman.dialect.dialects import DEFAULT_DIALECT, load_dialect
from dragoman.engine.codec import json_values
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import refuse_unknown
from dragoman.errors import ConnectionFailed, Kind, Overloaded, ProtocolError, StartFailed
from dragoman.policy.stderr_secrets import stderr_redactor
from dragoman.roles.emulator_settings import emulator_settings
from dragoman.roles.proxy.built_in.table import BUILT_IN
from dragoman.roles.proxy.call import Call
from dragoman.roles.proxy.component import Component
from dragoman.roles.proxy.functions import PassOn
from dragoman.roles.proxy.link import INITIALIZE_METHODS, OFFICIAL, UNDERSCORED, Link, Params, Spelling
from dragoman.roles.proxy.reopened_sessions import ReopenedSessions
from dragoman.schema.base import encode
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope, read_error

# A proxy that ends more often than this within the window has a defect that a restart does not mend.
RESTART_LIMIT = 5
RESTART_WINDOW = 60.0

# How long a restarted proxy may take until it has seen its sessions again. Seconds.
RESTART_TIMEOUT = 60.0

# What may wait for a proxy that is restarted; more means that its neighbors produce faster than it starts.
MAX_HELD_BYTES = 16 * 1024 * 1024

METHOD_NOT_FOUND = -32601

_PROMPT = "session/prompt"


class _Held(NamedTuple):
    """A message that waits until the proxy runs again."""

    receiver: Side
    method: str
    params: Params
    call: Call | None


class ProxyProcess:
    """One proxy in its own process."""

    def __init__(
        self,
        name: str,
        component: Component,
        pass_on: PassOn,
        fail: Callable[[BaseException, str], None],
        report: Callable[[str], None],
        stderr: Callable[[bytes], None],
        wrap: Callable[[Transport, str], Transport],
    ) -> None:
        """`fail` ends the chain; `wrap` may put a recorder around the transport."""
        self.name = name
        self.is_initializing = False
        self._component = component
        self._pass_on = pass_on
        self._fail_chain = fail
        self._report = report
        self._stderr = stderr
        self._wrap = wrap
        self._link: Link | None = None
        self._is_bypassed = False
        self._is_closing = False
        self._held: list[_Held] | None = None
        self._held_bytes = 0
        self._restarts: deque[float] = deque()
        self._restart_task: asyncio.Task[None] | None = None
        self._prompts: dict[Call, Params] = {}  # prompts that it forwarded
        self._sessions = ReopenedSessions(self._send_plain)
        self._first_params: Params = UNSET
        self._successor_answer: Envelope | None = None  # what its successor answered to initialize
        self._has_forwarded = False

    async def start(self) -> None:
        """Start the process; raise StartFailed with its name."""
        from dragoman.transport.process.transport import spawn

        try:
            command, env = self._component.command, self._component.env
            transport = await spawn(
                command, env=env, stderr=self._stderr, redact=stderr_redactor(os.environ, env), peer=self.name
            )
        except StartFailed as error:
            from difflib import get_close_matches  # a chain that works never needs it

            close = get_close_matches(command[0], BUILT_IN, 1)
            hint = f"; did you mean the built-in proxy {close[0]}?" if close else ""
            raise StartFailed(f"{self.name} cannot be started: {error}{hint}") from None
        connection = Connection(
            self._wrap(transport, self._component.label),
            Side.CLIENT,
            {},
            fallback=refuse_unknown,
            settings=emulator_settings(),
            peer_dialect=load_dialect(DEFAULT_DIALECT),
            report=self._report,
        )
        connection.sender.emulation = connection.peer.emulator = None
        connection.on_close = self._on_lost
        self._link = Link(connection, self.name, self._route, may_wrap=True)
        self._link.is_proxy = True
        self._link.completes_updates = self._component.dialect == DEFAULT_DIALECT
        connection.start()

    async def close(self) -> None:
        """End the process and everything it started."""
        self._is_closing = True
        if self._restart_task is not None:
            self._restart_task.cancel()
            await asyncio.gather(self._restart_task, return_exceptions=True)
        if self._link is not None:
            await self._link.connection.close()
        self._link, self._is_closing, self._successor_answer = None, False, None

    # --- messages of the chain --------------------------------------------------------------------------------

    def takes(self, receiver: Side, method: str) -> bool:
        """Whether a message must go through this proxy."""
        return not self._is_bypassed

    def send(
        self, receiver: Side, method: str, params: Params, call: Call | None, frame: bytes | None = None
    ) -> Awaitable[None] | None:
        """Take a message on its way to `receiver`."""
        if method == "initialize" and receiver is Side.AGENT and call is not None:
            self._first_params = params
            self._ask(call, OFFICIAL)
            return None
        if self._held is not None and not (receiver is Side.CLIENT and self._sessions.is_replay(method, params)):
            self._hold(_Held(receiver, method, params, call))
            return None
        if receiver is Side.AGENT and call is not None and self._component.on_exit == "restart":
            call = self._sessions.watch(method, params, call)
        return self._connected().send(receiver is Side.CLIENT, method, params, call, frame)

    def _connected(self) -> Link:
        if self._link is None:
            raise ProtocolError(Kind.INVALID_STATE, f"{self.name} is not started yet; send initialize first")
        return self._link

    def _send_plain(self, method: str, params: Params, call: Call) -> None:
        self._connected().send(False, method, params, call)

    def _hold(self, message: _Held) -> None:
        assert self._held is not None
        self._held.append(message)
        self._held_bytes += 0 if message.params is UNSET else len(bytes(message.params))
        if self._held_bytes > MAX_HELD_BYTES:
            self._fail_chain(
                Overloaded(f"{self.name} restarts too slowly: {self._held_bytes} bytes wait for it"), self.name
            )

    def _route(
        self, is_wrapped: bool, method: str, params: Params, call: Call | None, frame: bytes | None
    ) -> Awaitable[None] | None:
        """Forward what the proxy sends: wrapped messages to its successor, plain ones to its predecessor."""
        if not is_wrapped:
            if method in INITIALIZE_METHODS or method == "initialize":
                raise ProtocolError(Kind.INVALID_REQUEST, f"{self.name} may not send {method} to its predecessor")
            if self._sessions.is_replay(method, params):
                return None
            return self._pass_on(Side.CLIENT, method, params, call, frame)
        if method == "initialize":
            if call is not None:
                self._forward_initialize(params, call)
            return None
        if method == _PROMPT and call is not None:
            self._prompts = {each: given for each, given in self._prompts.items() if each.is_open}
            self._prompts[call] = params
        return self._pass_on(Side.AGENT, method, params, call)

    # --- the handshake ----------------------------------------------------------------------------------------

    def _ask(self, call: Call, spelling: Spelling) -> None:
        """Send initialize in a spelling; if the proxy does not know it, try the older one."""
        link = self._connected()
        link.spelling = spelling
        self.is_initializing, self._has_forwarded = True, False

        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            self.is_initializing = False
            if envelope is None:
                call.finish(None, error)
                return
            code = None if envelope.error is UNSET else read_error(envelope.error).code
            if code == METHOD_NOT_FOUND and not self._has_forwarded:
                if spelling is OFFICIAL:
                    self._ask(call, UNDERSCORED)
                else:
                    call.finish(None, self._no_proxy(f"it does not know {OFFICIAL.initialize}"))
                return
            fault = None if code is not None else self._handshake_fault(envelope.result)
            call.finish(envelope if fault is None else None, fault)

        inner = Call(spelling.initialize, answer, id=call.id)
        call.hold(inner)
        link.send(False, spelling.initialize, self._first_params, inner)

    def _forward_initialize(self, params: Params, call: Call) -> None:
        self._has_forwarded = True
        asked, first = _version(params), _version(self._first_params)
        if asked is not None and first is not None and asked > first:
            text = f"{self.name} asked its successor for protocol version {asked}, but was asked for {first}"
            raise ProtocolError(Kind.INVALID_PARAMS, text, {"component": self.name})
        if self._successor_answer is not None:  # this proxy was started again, its successor was not
            call.finish(self._successor_answer, None)
            return

        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            if envelope is not None and envelope.error is UNSET:
                self._successor_answer = envelope
            call.finish(envelope, error)

        inner = Call("initialize", answer, id=call.id)
        call.hold(inner)
        self._pass_on(Side.AGENT, "initialize", params, inner)

    def _handshake_fault(self, result: Any) -> ProtocolError | None:
        """Return what is wrong with the answer to initialize."""
        if self._successor_answer is None:
            return self._no_proxy("it answered without asking its successor")
        version, below = _version(result), _version(self._successor_answer.result)
        if version != below:
            text = f"{self.name} changed the protocol version from {below} to {version}; a proxy passes it on"
            return ProtocolError(Kind.INTERNAL_ERROR, text, {"component": self.name})
        return None

    def _no_proxy(self, why: str) -> ProtocolError:
        text = f"{self.name} is no proxy: {why}; only the last component of a chain is an agent"
        return ProtocolError(Kind.INTERNAL_ERROR, text, {"component": self.name})

    # --- the end of the process -------------------------------------------------------------------------------

    def _on_lost(self, error: BaseException) -> None:
        """The process ended; its open requests were answered with the reason."""
        if self._is_closing:
            return
        link = self._connected()
        for call in list(link.received.values()):
            call.drop()
        for call, params in self._prompts.items():
            if call.is_open:  # many agents stop a turn only for this
                self._pass_on(Side.AGENT, "session/cancel", _session_only(params), None)
        self._prompts.clear()
        if self._restart_task is not None or self.is_initializing or self._successor_answer is None:
            return  # whoever waits for initialize gets the error
        rule = self._component.on_exit
        if link.loss:
            error = ConnectionFailed(f"{error}{link.loss}")
        if rule == "fail":
            self._fail_chain(error, self.name)
        elif rule == "bypass":
            self._is_bypassed = True
            self._report(f"{error}; the chain goes on without it")
        else:
            self._held, self._held_bytes = [], 0
            self._restart_task = asyncio.get_running_loop().create_task(self._restart(error))

    async def _restart(self, error: BaseException) -> None:
        """Start the process again, then deliver what waited for it."""
        while not self._ends_too_often():
            self._report(f"{error}; it is started again")
            try:
                async with asyncio.timeout(RESTART_TIMEOUT):
                    await self._start_again()
                break
            except TimeoutError:
                error = ConnectionFailed(f"{self.name} was not ready within {RESTART_TIMEOUT:g} s")
            except (ConnectionFailed, ProtocolError) as fault:
                error = fault
        else:
            text = f"{error}; it ended {len(self._restarts)} times within {RESTART_WINDOW:g} s and stays down"
            self._restart_task = None
            self._fail_chain(ConnectionFailed(text), self.name)
            return
        held, self._held, self._restart_task = self._held or [], None, None
        for message in held:
            try:
                self.send(*message)
            except ProtocolError as fault:
                if message.call is not None:
                    message.call.finish(None, fault)

    def _ends_too_often(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._restarts.append(now)
        while self._restarts[0] < now - RESTART_WINDOW:
            self._restarts.popleft()
        return len(self._restarts) > RESTART_LIMIT

    async def _start_again(self) -> None:
        await self._connected().connection.close()
        await self.start()
        await self._initialize_again()
        assert self._successor_answer is not None
        await self._sessions.reopen(json_values(self._successor_answer.result), self._report, self.name)
        failure = self._connected().connection.failure
        if failure is not None:
            raise ConnectionFailed(str(failure))

    async def _initialize_again(self) -> None:
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            if answered.done():
                return
            if envelope is None or envelope.error is not UNSET:
                refusal = error or ProtocolError(Kind.INTERNAL_ERROR, f"{self.name} refused initialize")
                answered.set_exception(refusal)
            else:
                answered.set_result(None)

        self._ask(Call("initialize", answer), OFFICIAL)
        await answered


def _version(params: Any) -> int | None:
    values = json_values(params)
    version = values.get("protocolVersion") if isinstance(values, dict) else None
    return version if isinstance(version, int) else None


def _session_only(params: Params) -> Raw:
    values = json_values(params)
    session = values.get("sessionId") if isinstance(values, dict) else ""
    return Raw(encode({"sessionId": session}))
