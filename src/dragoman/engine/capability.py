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


# The draft's names of what a client can do, for the lists of what an agent requires.
_OFFICIAL = {"fs.read": "fs.readTextFile", "fs.write": "fs.writeTextFile", "terminal.create": "terminal"}


def missing(required: Any, capabilities: Any) -> list[str]:
    """The paths in a tree of required client capabilities (the draft's words) that a client does not offer."""
    return [path for path in _paths(required) if not offers(f"client.{_OFFICIAL.get(path, path)}", capabilities)]


def _paths(tree: Any, prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, value in tree.items() if isinstance(tree, dict) else ():
        path = f"{prefix}{name}"
        if isinstance(value, dict):
            found.extend(_paths(value, f"{path}."))
        elif value:
            found.append(path)
    return found
