"""Who we talk to: what the peer said it can do, and so what may be said to it.

Learns from the initialize that passes on a connection, in either direction, and tells the dialect's ledger. A gate is a
path of the table's row; what the peer did not offer is refused here and never sent.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.emulator import Emulator
from dragoman.engine.decode import decode_as
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import to_json
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.side import Side


def offers(gate: str, capabilities: Any) -> bool:
    """Whether capabilities (a Struct or JSON values) open this gate; no gate is always open."""
    if not gate:
        return True
    value = to_json(capabilities) if isinstance(capabilities, msgspec.Struct) else capabilities
    for name in gate.split(".")[1:]:
        if not isinstance(value, dict):
            return False
        value = value.get(name, UNSET)
    return value is not UNSET and value is not None and value is not False


# The draft's names of what a client can do, for the lists of what an agent requires.
_OFFICIAL_NAMES = {"fs.read": "fs.readTextFile", "fs.write": "fs.writeTextFile", "terminal.create": "terminal"}


def missing_capabilities(required: Any, capabilities: Any) -> list[str]:
    """The paths in a tree of required client capabilities (the draft's words) that a client does not offer."""
    return [
        path
        for path in _capability_paths(required)
        if not offers(f"client.{_OFFICIAL_NAMES.get(path, path)}", capabilities)
    ]


def _capability_paths(tree: Any, prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, value in tree.items() if isinstance(tree, dict) else ():
        path = f"{prefix}{name}"
        if isinstance(value, dict):
            found.extend(_capability_paths(value, f"{path}."))
        elif value:
            found.append(path)
    return found


_INITIALIZE = METHODS[Side.AGENT, "initialize"]


class PeerInfo:
    """The peer of one connection, as far as it introduced itself."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._gates: dict[str, bool] = {}
        self._unannounced: frozenset[str] = frozenset()
        self.capabilities: Any = None
        self.is_initialized = False  # once it is, nobody changes what was offered

    def note_initialize(self, params: Any, emulator: Emulator | None) -> None:
        """The client's initialize passed: remember what it offers."""
        try:
            params = decode_as(_INITIALIZE.params, params)
        except ProtocolError:
            return
        if self._side is Side.AGENT:
            self._set_capabilities(params.client_capabilities)
        if emulator is not None:
            emulator.note_initialize(params)

    def note_initialize_result(self, result: Any, emulator: Emulator | None) -> None:
        """The agent's answer to initialize passed: remember what it offers."""
        try:
            result = decode_as(_INITIALIZE.result, result)
        except ProtocolError:
            return
        self.is_initialized = True
        if self._side is Side.CLIENT:
            self._set_capabilities(result.agent_capabilities)
        if emulator is not None:
            self._unannounced = emulator.unannounced_capabilities
            emulator.note_initialize_result(result)

    def _set_capabilities(self, capabilities: Any) -> None:
        self.capabilities = capabilities
        self._gates.clear()

    def offers(self, gate: str) -> bool:
        """Whether what this gate leads to may be said to the peer."""
        known = self._gates.get(gate)
        if known is None:
            # A capability of ours opens what we say (the draft's pushed output): only the peer's can be missing.
            ours = gate.startswith(f"{self._side.value}.")
            known = self._gates[gate] = ours or gate in self._unannounced or offers(gate, self.capabilities)
        return known

    def refusal(self, row: Method | None) -> ProtocolError | None:
        """Why a method may not be said to the peer; None when it may."""
        if row is None or not row.gate or self.offers(row.gate):
            return None
        what = row.gate.partition(".")[2]
        return ProtocolError(
            Kind.CAPABILITY_UNSUPPORTED,
            f"{row.name} needs {what}, which the peer does not offer",
            {"method": row.name, "capability": what},
        )
