"""The register of probes: for each requirement the one function that tries it.

`@probe("agent.rpc.07")` puts a function there; `probes()` imports every module of the folder and gives them all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

# A probe takes the stage of its side; it returns when all is well and raises a Found when not.
Probe = Callable[[Any], Awaitable[None]]
P = TypeVar("P", bound=Probe)

_PROBES: dict[str, Probe] = {}


def probe(id: str) -> Callable[[P], P]:
    """Decorator: this function tries the requirement of that id."""

    def register(function: P) -> P:
        if id in _PROBES:
            raise ValueError(f"{id} has two probes: {_PROBES[id].__name__} and {function.__name__}")
        _PROBES[id] = function
        return function

    return register


@cache
def probes() -> dict[str, Probe]:
    """Every probe by the id of its requirement."""
    package = import_module("dragoman.conformance.probes")
    for found in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{found.name}")
    return _PROBES
