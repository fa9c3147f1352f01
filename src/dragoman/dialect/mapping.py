"""One row says how one object is spelled: what is renamed, kept as side data, inferred, or left unsaid.

Most objects of the draft need no more than a row; the modules beside this one add what a row cannot say.
Takes and gives JSON objects, never anything else: whoever calls has looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, NamedTuple

from dragoman.dialect.reshape import Json, Lifted, Lowered, Object
from dragoman.dialect.side_data import opened

Turn = Callable[[Object], Object]
Pair = tuple[Turn, Turn]


class Row(NamedTuple):
    """The spelling of one object, both ways."""

    names: Mapping[str, str] = {}
    side: Mapping[str, str] | Iterable[str] = ()
    inferred: Mapping[str, Json] = {}
    unsaid: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}

    def read(self, obj: Object) -> Lifted:
        """The object as far as the row can lift it; for those who have more to add."""
        lifted = Lifted(obj)
        lifted.move(self.names)
        lifted.keep(self.side)
        for name, value in self.inferred.items():
            if name not in lifted.out and name not in lifted.left:
                lifted.infer(name, copy(value))
        return lifted

    def lift(self, obj: Object) -> Object:
        """Wire object -> vocabulary object."""
        return self.read(obj).done()

    def say(self, obj: Object) -> Lowered:
        """The object as far as the row can lower it; whoever asks finishes with `done(row.unsaid)`."""
        lowered = opened(obj, tuple(self.inferred))
        lowered.move(self.names)
        lowered.restore(self.side)
        for name, value in self.defaults.items():
            if name not in lowered.out and name not in lowered.left:
                lowered.out[name] = copy(value)
        return lowered

    def lower(self, obj: Object) -> Object:
        """Vocabulary object -> wire object."""
        return self.say(obj).done(self.unsaid)

    @property
    def pair(self) -> Pair:
        """The two functions a table of methods wants."""
        return self.lift, self.lower


def each(turn: Turn, items: Json) -> Json:
    """A list with every object turned; what is no list or no object stays, for typed validation to report."""
    if type(items) is not list:
        return items
    return [turn(item) if type(item) is dict else item for item in items]


def one(turn: Turn, item: Json) -> Json:
    """An object turned; anything else stays as it is."""
    return turn(item) if type(item) is dict else item
