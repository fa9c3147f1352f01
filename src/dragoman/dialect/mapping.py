"""One row says how one object is spelled: what is renamed, kept as side data, inferred, or left unsaid.

Most objects of the draft need no more than a row; the modules beside this one add what a row cannot say.
Takes and gives JSON objects, never anything else: whoever calls has looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, NamedTuple

from dragoman.dialect.reshape import Json, Lifted, Lowered, Object
from dragoman.dialect.side_data import begin_lowering

Conversion = Callable[[Object], Object]
ConversionPair = tuple[Conversion, Conversion]


class ObjectMapping(NamedTuple):
    """The spelling of one object, both ways."""

    renames: Mapping[str, str] = {}
    side_data: Mapping[str, str] | Iterable[str] = ()
    inferred: Mapping[str, Json] = {}
    unsupported: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}

    def begin_lifting(self, obj: Object) -> Lifted:
        """The object as far as the row can lift it; for those who have more to add."""
        lifted = Lifted(obj)
        lifted.rename(self.renames)
        lifted.move_to_side_data(self.side_data)
        for name, value in self.inferred.items():
            if name not in lifted.out and name not in lifted.rest:
                lifted.infer(name, copy(value))
        return lifted

    def lift(self, obj: Object) -> Object:
        """Wire object -> vocabulary object."""
        return self.begin_lifting(obj).build()

    def begin_lowering(self, obj: Object) -> Lowered:
        """The object as far as the row can lower it; whoever asks finishes with `done(row.unsaid)`."""
        lowered = begin_lowering(obj, tuple(self.inferred))
        lowered.rename(self.renames)
        lowered.move_from_side_data(self.side_data)
        for name, value in self.defaults.items():
            if name not in lowered.out and name not in lowered.rest:
                lowered.out[name] = copy(value)
        return lowered

    def lower(self, obj: Object) -> Object:
        """Vocabulary object -> wire object."""
        return self.begin_lowering(obj).build(self.unsupported)

    @property
    def pair(self) -> ConversionPair:
        """The two functions a table of methods wants."""
        return self.lift, self.lower


def apply_to_list(convert: Conversion, items: Json) -> Json:
    """A list with every object turned; what is no list or no object stays, for typed validation to report."""
    if type(items) is not list:
        return items
    return [convert(item) if type(item) is dict else item for item in items]


def apply_to_object(convert: Conversion, item: Json) -> Json:
    """An object turned; anything else stays as it is."""
    return convert(item) if type(item) is dict else item
