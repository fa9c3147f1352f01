"""The snapshot of the official registry that ships with Dragoman: entries, what they can do, and the quarantine.

It is dated, and shown when nothing newer is to be had. Versions in it are not installed without asking npm or PyPI.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

import msgspec

from dragoman.config.agent_choice import AgentFacts
from dragoman.registry.index.entry import Index, parse_index

PATH = os.path.join(os.path.dirname(__file__), "snapshot.json")


class _Row(msgspec.Struct):
    version: str
    logins: tuple[str, ...]
    can: dict[str, bool]


class _Matrix(msgspec.Struct):
    date: str
    agents: dict[str, _Row]


class _Snapshot(msgspec.Struct):
    date: str
    quarantine: dict[str, str]
    matrix: _Matrix
    index: msgspec.Raw


@cache
def _load() -> _Snapshot:
    with open(PATH, "rb") as file:
        return msgspec.json.decode(file.read(), type=_Snapshot)


def snapshot_date() -> str:
    """Return the day of the snapshot."""
    return _load().date


@cache
def snapshot_index() -> Index:
    """Return the entries of the snapshot."""
    return parse_index(bytes(_load().index))


def quarantine() -> Mapping[str, str]:
    """Return the ids that the registry kept out of its checks, with the reason."""
    return _load().quarantine


def matrix_facts(id: str) -> AgentFacts | None:
    """Return what the registry's matrix says of an agent."""
    matrix = _load().matrix
    row = matrix.agents.get(id)
    if row is None:
        return None
    return AgentFacts(source="registry", date=matrix.date, version=row.version, can=row.can, logins=row.logins)
