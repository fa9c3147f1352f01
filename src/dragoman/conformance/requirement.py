"""The table of conformance: every requirement with its level and source, and the probe that tries it.

`@must`, `@should` and `@may` stand over a probe in the packages `agent` and `client` and register both: the docstring
of the probe is the sentence of the requirement.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from enum import StrEnum
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Protocol, TypeVar

import msgspec

from dragoman.dialect.dialects import DIALECT_NAMES, load_dialect
from dragoman.schema.side import Side

# The dialects that share most of their requirements: in the others, turns and updates have another form.
SIMILAR_DIALECTS = tuple(name for name in DIALECT_NAMES if not load_dialect(name).is_wide)


class Level(StrEnum):
    """How strict a requirement is; only a failed MUST makes a check fail."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a peer has to do; `needs` is the capability of the peer that makes it apply, "" for always."""

    id: str
    side: Side
    level: Level
    sentence: str
    source: str
    dialects: tuple[str, ...] = ()
    needs: str = ""
    way: str = ""
    """The transport that it is about, `http` or `ws`; "" for all, pipes included."""

    def applies(self, dialect: str, way: str = "") -> bool:
        """Return whether it holds for peers of this dialect over this transport ("": pipes)."""
        # A transport is the same for all dialects.
        similar = DIALECT_NAMES if self.way else SIMILAR_DIALECTS
        return dialect in (self.dialects or similar) and self.way in ("", way)

    @property
    def first_dialect(self) -> str:
        """The first dialect it applies to."""
        return self.dialects[0] if self.dialects else DIALECT_NAMES[0]

    @property
    def chapter(self) -> str:
        """The id without its number."""
        return self.id.rpartition(".")[0]


class Chapter(msgspec.Struct, frozen=True):
    """Requirements that share the beginning of their id; `dialects` are those of requirements that name none."""

    name: str
    title: str
    dialects: tuple[str, ...] = ()
    way: str = ""


# In the order of reports.
CHAPTERS = (
    Chapter("agent.rpc", "JSON-RPC"),
    Chapter("agent.frame", "Lines and bytes"),
    Chapter("agent.init", "Initialize"),
    Chapter("agent.session", "Sessions"),
    Chapter("agent.prompt", "Prompts and turns"),
    Chapter("agent.cancel", "Cancellation"),
    Chapter("agent.update", "Updates"),
    Chapter("agent.order", "Order"),
    Chapter("agent.toolcall", "Tool calls", ("v1", "banjo")),
    Chapter("agent.permission", "Permission"),
    Chapter("agent.files", "Files, terminals and forms"),
    Chapter("agent.auth", "Logins"),
    Chapter("agent.schema", "The official schema", ("v1",)),
    Chapter("agent.robust", "Hostile input"),
    Chapter("agent.dialect", "Banjo, crow and 2025.1"),
    Chapter("agent.draft", "The draft", ("draft",)),
    Chapter("agent.v2rpc", "v2: JSON-RPC", ("v2",)),
    Chapter("agent.v2init", "v2: initialize", ("v2",)),
    Chapter("agent.v2session", "v2: sessions", ("v2",)),
    Chapter("agent.v2resume", "v2: resume, list and close", ("v2",)),
    Chapter("agent.v2prompt", "v2: prompts", ("v2",)),
    Chapter("agent.v2state", "v2: states", ("v2",)),
    Chapter("agent.v2cancel", "v2: cancellation", ("v2",)),
    Chapter("agent.v2update", "v2: updates", ("v2",)),
    Chapter("agent.v2toolcall", "v2: tool calls", ("v2",)),
    Chapter("agent.v2terminal", "v2: terminals of the agent", ("v2",)),
    Chapter("agent.v2question", "v2: questions", ("v2",)),
    Chapter("agent.http", "Streamable HTTP", way="http"),
    Chapter("agent.ws", "WebSocket", way="ws"),
    Chapter("client.rpc", "JSON-RPC"),
    Chapter("client.life", "Connecting to the agent"),
    Chapter("client.choice", "Modes, options, old sessions", ("v1",)),
    Chapter("client.session", "Sessions and prompts"),
    Chapter("client.update", "Updates", ("v1", "banjo")),
    Chapter("client.order", "Order"),
    Chapter("client.turn", "The end of a turn"),
    Chapter("client.permission", "Permission", ("v1", "banjo")),
    Chapter("client.files", "Files", ("v1", "banjo")),
    Chapter("client.terminal", "Terminals", ("v1", "banjo")),
    Chapter("client.frame", "Lines and bytes"),
    Chapter("client.process", "The agent's process"),
    Chapter("client.dialect", "Banjo, crow and 2025.1"),
    Chapter("client.draft", "The draft", ("draft",)),
    Chapter("client.v2life", "v2: connecting to the agent", ("v2",)),
    Chapter("client.v2turn", "v2: prompts and states", ("v2",)),
    Chapter("client.v2update", "v2: updates", ("v2",)),
    Chapter("client.v2question", "v2: questions", ("v2",)),
    Chapter("client.v2rpc", "v2: JSON-RPC", ("v2",)),
    Chapter("client.http", "Streamable HTTP", way="http"),
    Chapter("client.ws", "WebSocket", way="ws"),
)
_BY_NAME = {chapter.name: chapter for chapter in CHAPTERS}

# A probe takes the peer under test. It returns when the peer passes and raises a ProbeEnded when not.
Probe = Callable[[Any], Awaitable[None]]
P = TypeVar("P", bound=Probe)

# A page of docs/protocol, as probes cite it: `json-rpc.md#ids`.
_PAGE = re.compile(r"[\w-]+\.md#")

_REQUIREMENTS: dict[str, Requirement] = {}
_PROBES: dict[str, Probe] = {}


class _Declare(Protocol):
    def __call__(self, id: str, source: str, dialects: str = "", *, needs: str = "") -> Callable[[P], P]: ...


def _decorator(level: Level) -> _Declare:
    """Return the decorator of this level.

    `source` cites pages of docs/protocol; `dialects` are names with spaces between, "" for those of the chapter.
    """

    def declare(id: str, source: str, dialects: str = "", *, needs: str = "") -> Callable[[P], P]:
        chapter = _BY_NAME[id.rpartition(".")[0]]

        def register(probe: P) -> P:
            if id in _REQUIREMENTS:
                raise ValueError(f"two requirements have the id {id}")
            _PROBES[id] = probe
            _REQUIREMENTS[id] = Requirement(
                id=id,
                side=Side(id.partition(".")[0]),
                level=level,
                sentence=" ".join((probe.__doc__ or "").split()),
                source=_PAGE.sub(r"docs/protocol/\g<0>", source),
                dialects=tuple(dialects.split()) or chapter.dialects,
                needs=needs,
                way=chapter.way,
            )
            return probe

        return register

    return declare


must = _decorator(Level.MUST)
should = _decorator(Level.SHOULD)
may = _decorator(Level.MAY)  # who does it does it so


@cache
def requirements() -> dict[str, Requirement]:
    """Return every requirement by its id, in the order of reports."""
    for side in ("agent", "client"):
        package = import_module(f"dragoman.conformance.{side}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    places = {chapter.name: place for place, chapter in enumerate(CHAPTERS)}
    ordered = sorted(_REQUIREMENTS.values(), key=lambda each: (places[each.chapter], each.id))
    return {requirement.id: requirement for requirement in ordered}


@cache
def probes() -> dict[str, Probe]:
    """Return every probe by the id of its requirement."""
    requirements()
    return _PROBES
