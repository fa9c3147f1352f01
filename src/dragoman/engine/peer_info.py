"""What the peer can do, from the initialize that passes on a connection, and so which methods may be sent to it.

A gate is the capability path of a method's row; a method that the peer does not offer is refused here.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.emulator import Emulator
from dragoman.engine.codec import decode_as
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import to_json
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.side import Side


def offers(gate: str, capabilities: Any) -> bool:
    """Whether capabilities (a Struct or JSON values) include this gate; no gate is always included."""
    if not gate:
        return True
    value = to_json(capabilities) if isinstance(capabilities, msgspec.Struct) else capabilities
    for name in gate.split(".")[1:]:
        if not isinstance(value, dict):
            return False
        value = value.get(name, UNSET)
    return value is not UNSET and value is not None and value is not False


# The draft's names of client capabilities that official v1 spells otherwise.
_OFFICIAL_NAMES = {"fs.read": "fs.readTextFile", "fs.write": "fs.writeTextFile", "terminal.create": "terminal"}


def missing_capabilities(required: Any, capabilities: Any) -> list[str]:
    """Return the paths of required client capabilities (in the draft's names) that the client does not offer."""
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
    """What the peer of one connection said about itself."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self.emulator: Emulator | None = None  # also gets what the peers say in initialize
        self._gates: dict[str, bool] = {}
        self._unannounced: frozenset[str] = frozenset()
        self.capabilities: Any = None
        self.is_initialized = False  # after this, what was offered cannot change

    def note_initialize(self, params: Any) -> None:
        """Remember what the client offers in its initialize, in either direction."""
        try:
            params = decode_as(_INITIALIZE.params, params)
        except ProtocolError:
            return
        if self._side is Side.AGENT:
            self._set_capabilities(params.client_capabilities)
        if self.emulator is not None:
            self.emulator.note_initialize(params)

    def note_initialize_result(self, result: Any) -> None:
        """Remember what the agent offers in its answer to initialize, in either direction."""
        try:
            result = decode_as(_INITIALIZE.result, result)
        except ProtocolError:
            return
        self.is_initialized = True
        if self._side is Side.CLIENT:
            self._set_capabilities(result.agent_capabilities)
        if self.emulator is not None:
            self._unannounced = self.emulator.unannounced_capabilities
            self.emulator.note_initialize_result(result)

    def _set_capabilities(self, capabilities: Any) -> None:
        self.capabilities = capabilities
        self._gates.clear()

    def offers(self, gate: str) -> bool:
        """Whether methods behind this gate may be sent to the peer."""
        is_open = self._gates.get(gate)
        if is_open is None:
            # Our own capability allows what we send (the draft's pushed output); only the peer's can be missing.
            is_own = gate.startswith(f"{self._side.value}.")
            is_open = self._gates[gate] = is_own or gate in self._unannounced or offers(gate, self.capabilities)
        return is_open

    def refusal(self, row: Method | None) -> ProtocolError | None:
        """Return why a method may not be sent to the peer; None when it may."""
        if row is None or not row.gate or self.offers(row.gate):
            return None
        capability = row.gate.partition(".")[2]
        return ProtocolError(
            Kind.CAPABILITY_UNSUPPORTED,
            f"{row.name} needs {capability}, which the peer does not offer",
            {"method": row.name, "capability": capability},
        )
