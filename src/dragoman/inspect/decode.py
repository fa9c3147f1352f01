"""Whichever dialect two peers speak, what they say in the vocabulary, and where it breaks the schema.

Takes wire methods and raw params or results, gives plain values of the vocabulary and the flaws that the method table
finds. The dialect is found out from the first message of the client and the agent's answer to initialize; each side
keeps its own. Pure and forgiving: nothing that a peer said makes it raise.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from dragoman.dialect import detect
from dragoman.dialect.dialects import Dialect, dialect
from dragoman.errors import ProtocolError
from dragoman.inspect.event import Flaw
from dragoman.schema.lenient import Fault, parse
from dragoman.schema.lenient import read as read_leniently
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.side import Side

_NOT_STRICT = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

# Names a peer may give methods of its own.
_OWN = ("_", "$/")


class Hearing:
    """The dialects of one recording."""

    def __init__(self, named: str = "auto") -> None:
        self._is_fixed = named != "auto"
        first = dialect(named if self._is_fixed else "v1")
        self._spoken: dict[Side, Dialect] = {Side.CLIENT: first, Side.AGENT: first}
        self._heard_client = self._heard_agent = self._is_fixed

    @property
    def names(self) -> tuple[str, str]:
        """The dialects of the client and of the agent."""
        return self._spoken[Side.CLIENT].name, self._spoken[Side.AGENT].name

    def call(self, to: Side, method: str, raw: Raw, is_request: bool) -> tuple[str, Any, list[Flaw]]:
        """A call: its method and params in the vocabulary, and what is wrong with them."""
        said, flaws = _values(raw)
        if to is Side.AGENT and not self._is_fixed and (method == "initialize" or not self._heard_client):
            self._heard_agent = self._heard_agent and method != "initialize"  # an agent may be started again
            self._listen(method, said)
        try:
            name, params = self._spoken[to.other].lift_call(to, method, said)
        except ProtocolError as error:
            return method, said, [*flaws, *_of_error(error)]
        row = METHODS.get((to, name))
        if row is None:
            known = name.startswith(_OWN)
            return name, params, flaws if known else [*flaws, Flaw("method", f"{method!r} is no known method")]
        if row.request != is_request and not row.either:
            wanted = "a request: it needs an id" if row.request else "a notification: it has no id"
            flaws.append(Flaw("id", f"{method} is {wanted}", row.request))
        return name, params, flaws + _check(row.params, params)

    def result(self, by: Side, method: str, raw: Raw) -> tuple[Any, list[Flaw]]:
        """The result of a request whose method is named in the vocabulary, and what is wrong with it."""
        said, flaws = _values(raw)
        if method == "initialize" and by is Side.AGENT and not self._heard_agent:
            self._heard_agent = True
            found = detect.of_agent(said)
            # The smallest answer of all, a bare version, tells nothing: then both speak as the client does.
            if found is not None and (found != "v1" or "agentCapabilities" in said):
                self._spoken[Side.AGENT] = dialect(found)
        try:
            result = self._spoken[by].lift_result(by, method, said)
        except ProtocolError as error:
            return said, [*flaws, *_of_error(error)]
        row: Method | None = METHODS.get((by, method))
        if row is None or row.result in (None, Any):
            return result, flaws
        return result, flaws + _check(row.result, result)

    def _listen(self, method: str, params: Any) -> None:
        found = detect.of_client(method, params)
        if found is not None:
            self._heard_client = True
            self._spoken[Side.CLIENT] = dialect(found)
            if not self._heard_agent:
                self._spoken[Side.AGENT] = dialect(found)


def _values(raw: Raw) -> tuple[Any, list[Flaw]]:
    if not raw:
        return {}, []
    try:
        return msgspec.json.decode(raw), []
    except _NOT_STRICT as error:
        try:
            return parse(bytes(raw)), [Flaw("", f"no strict JSON: {error}", False)]
        except ProtocolError as worse:
            return {}, [Flaw("", worse.message)]


def _check(kind: Any, value: Any) -> list[Flaw]:
    """What the type finds wrong: strictly first, for nearly all messages are sound."""
    try:
        msgspec.convert({} if value is None else value, kind)
        return []
    except _NOT_STRICT:
        pass
    try:
        _, faults = read_leniently(kind, value)
    except ProtocolError as error:
        return _of_error(error)
    return [_flaw(fault) for fault in faults]


def _of_error(error: ProtocolError) -> list[Flaw]:
    listed = (error.data or {}).get("errors")
    if isinstance(listed, list) and listed:
        return [Flaw(str(each.get("path", "")), str(each.get("message", ""))) for each in listed]
    return [Flaw("", error.message)]


def _flaw(fault: Fault) -> Flaw:
    return Flaw(fault.path, fault.message, fault.fatal)
