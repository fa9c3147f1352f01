"""Whether a peer offers what a method needs: the gate of its row, looked up in what the peer advertised.

Takes gate paths such as `client.fs.readTextFile` and capability Structs; gives yes or no. Absent, null and false are
no; an empty object is yes (`{}` = supported).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.schema.base import to_json


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
