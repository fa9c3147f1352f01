"""The errors for requests that the host does not serve; the reasons are in schema/methods.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.methods import find_method
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.engine.incoming import Incoming

_OUR_PREFIX = "_dragoman/"


def is_extension(method: str) -> bool:
    """Tell whether a method is an extension between the agent and its clients: neither ours nor refused."""
    return method.startswith("_") and not method.startswith(_OUR_PREFIX) and find_method(Side.AGENT, method) is None


def refusal(to: Side, incoming: Incoming, default_reason: str = "") -> ProtocolError:
    """Return the error for a request that the host does not serve, with the reason."""
    row = find_method(to, incoming.method)
    reason = (row.host_reason if row is not None else "") or default_reason
    kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
    what = f"the host does not serve {incoming.method}" + (f": {reason}" if reason else "")
    return ProtocolError(kind, what, {"method": incoming.method})
