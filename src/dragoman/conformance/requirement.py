"""THE table of conformance: what a peer has to do, one row a requirement, assembled from the chapter files.

A row says who must do what in which dialects, how strictly, under which capability, and where that is written. Below
are the chapters, above are probes, faults, reports and our own tests. It refuses to know how anything is tried out.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import msgspec

from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.schema.side import Side


class Level(StrEnum):
    """How strictly a requirement is meant; only a MUST makes a check fail."""

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
    """The transport that it is about, `http` or `ws`; "" for all, pipes among them."""

    def applies(self, dialect: str, way: str = "") -> bool:
        """Whether peers of this dialect have to do it, over this way ("": pipes)."""
        return (not self.dialects or dialect in self.dialects) and self.way in ("", way)

    @property
    def home(self) -> str:
        """The dialect in which its fault is seeded: the first it applies to."""
        return self.dialects[0] if self.dialects else DIALECT_NAMES[0]

    @property
    def chapter(self) -> str:
        """The part of the id that the chapter's requirements share."""
        return self.id.rpartition(".")[0]


class Row(msgspec.Struct, frozen=True):
    """A requirement as a chapter writes it, without what the chapter knows already."""

    number: str
    level: Level
    sentence: str
    source: str
    dialects: tuple[str, ...]
    needs: str


class Chapter(msgspec.Struct, frozen=True):
    """One file of the table."""

    name: str
    title: str
    requirements: tuple[Requirement, ...]


def must(number: str, sentence: str, source: str, *dialects: str, needs: str = "") -> Row:
    """A row of level MUST."""
    return Row(number, Level.MUST, sentence, source, dialects, needs)


def should(number: str, sentence: str, source: str, *dialects: str, needs: str = "") -> Row:
    """A row of level SHOULD."""
    return Row(number, Level.SHOULD, sentence, source, dialects, needs)


def may(number: str, sentence: str, source: str, *dialects: str, needs: str = "") -> Row:
    """A row of level MAY: where it is done, it is done so."""
    return Row(number, Level.MAY, sentence, source, dialects, needs)


def chapter(name: str, title: str, rows: Iterable[Row], *, dialects: tuple[str, ...] = (), way: str = "") -> Chapter:
    """The chapter `agent.rpc` or `client.order` of these rows; `dialects` are those of rows that name none."""
    side = Side(name.partition(".")[0])
    made = (
        Requirement(
            id=f"{name}.{row.number}",
            side=side,
            level=row.level,
            sentence=row.sentence,
            source=row.source,
            dialects=row.dialects or dialects,
            needs=row.needs,
            way=way,
        )
        for row in rows
    )
    return Chapter(name, title, tuple(made))


@cache
def chapters() -> tuple[Chapter, ...]:
    """Every chapter, those of agents first, in the order of their `PLACE` and name."""
    package = import_module("dragoman.conformance.chapters")
    modules = [import_module(f"{package.__name__}.{found.name}") for found in iter_modules(package.__path__)]
    modules.sort(key=lambda module: (module.CHAPTER.name.partition(".")[0], module.PLACE, module.CHAPTER.name))
    return tuple(module.CHAPTER for module in modules)


@cache
def requirements() -> dict[str, Requirement]:
    """Every requirement by its id, in the order of the chapters."""
    found: dict[str, Requirement] = {}
    for part in chapters():
        for requirement in part.requirements:
            if requirement.id in found:
                raise ValueError(f"the requirement {requirement.id} stands twice in the chapters")
            found[requirement.id] = requirement
    return found
