"""Members that the types do not know: found by place, and put back when a changed message is lowered again.

An Unknown needs none of this: it carries its whole raw object.
"""

from __future__ import annotations

from typing import Any

from dragoman.schema.introspect import Shape, shape_of


class ObjectExtras(dict[str, Any]):
    """Extras inside a known object; a plain dict is an unknown member's own value."""


class ListExtras(dict[int, Any]):
    """Extras inside the items of a known list, by position; `length` is that of the list they come from."""

    length: int = 0


def find_unknown_members(value: Any, kind: Any) -> Any | None:
    """The members of a JSON value that its type does not know, nested at their place; None for none."""
    return _find_in_value(value, shape_of(kind))


def _find_in_value(value: Any, shape: Shape) -> Any | None:
    if shape.anything:
        return None
    if isinstance(value, dict):
        if shape.variants:
            known = shape.variants.get(str(value.get(shape.tag_field)))
            return _find_in_object(value, known, shape.tag_field) if known else None
        if shape.struct is not None:
            return _find_in_object(value, shape, None)
        if shape.values is not None:
            inner = {key: _find_in_value(item, shape.values) for key, item in value.items()}
            return ObjectExtras({key: item for key, item in inner.items() if item is not None}) or None
    if isinstance(value, list) and shape.items is not None:
        found = ListExtras()
        found.length = len(value)
        for index, item in enumerate(value):
            extra = _find_in_value(item, shape.items)
            if extra is not None:
                found[index] = extra
        return found or None
    return None


def _find_in_object(value: dict[str, Any], shape: Shape, tag_field: str | None) -> ObjectExtras | None:
    members = {member.key: member for member in shape.members}
    found = ObjectExtras()
    for key, item in value.items():
        member = members.get(key)
        if member is None:
            if key != tag_field:
                found[key] = item
        elif (extra := _find_in_value(item, member.shape)) is not None:
            found[key] = extra
    return found or None


def merge_unknown_members(value: Any, extra: Any | None) -> Any:
    """A copy of a JSON value with extras put back; what the value says itself is never replaced."""
    if isinstance(extra, ObjectExtras) and isinstance(value, dict):
        merged = dict(value)
        for key, item in extra.items():
            if isinstance(item, (ObjectExtras, ListExtras)):
                # The known member it stood in may be gone by now; then there is no place to put it.
                if key in merged:
                    merged[key] = merge_unknown_members(merged[key], item)
            else:
                merged.setdefault(key, item)
        return merged
    if isinstance(extra, ListExtras) and isinstance(value, list) and len(value) == extra.length:
        # A list of another length was rewritten: positions no longer say which item is which.
        return [merge_unknown_members(item, extra.get(index)) for index, item in enumerate(value)]
    return value
