"""An ObjectMapping describes how one object is converted: renamed, side data, inferred and unsupported members.

Most objects of the draft need nothing else. Takes and gives JSON objects only.
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
    """The conversion of one object, both ways."""

    renames: Mapping[str, str] = {}
    side_data: Mapping[str, str] | Iterable[str] = ()
    inferred: Mapping[str, Json] = {}
    unsupported: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}

    def begin_lifting(self, obj: Object) -> Lifted:
        """Lift as far as the mapping goes; the caller adds the rest."""
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
        """Lower as far as the mapping goes; the caller finishes with `build`."""
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
        """Return both functions for a method table."""
        return self.lift, self.lower


def apply_to_list(convert: Conversion, items: Json) -> Json:
    """Convert each object of a list; anything else is unchanged, for typed validation to report."""
    if type(items) is not list:
        return items
    return [convert(item) if type(item) is dict else item for item in items]


def apply_to_object(convert: Conversion, item: Json) -> Json:
    """Convert an object; anything else is unchanged."""
    return convert(item) if type(item) is dict else item
