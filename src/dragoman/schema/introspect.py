"""The shape of a type of the vocabulary: members, list items, variants. Made once per type, off the fast path."""

from __future__ import annotations

import types
from functools import cache
from typing import Any, Union, get_args, get_origin

import msgspec

PLAIN_TYPES = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}


class StructMember:
    """A member of an object: its name here, its key on the wire, its type."""

    __slots__ = ("_kind", "key", "name", "required")

    def __init__(self, name: str, key: str, required: bool, kind: Any) -> None:
        self.name = name
        self.key = key
        self.required = required
        self._kind = kind

    @property
    def shape(self) -> Shape:
        """The shape of its value; found when asked for, since types may contain themselves."""
        return shape_of(self._kind)


class Shape:
    """What a value may be: plain types, null, an object (`struct`), one of `variants`, a list or a map."""

    __slots__ = ("_members", "anything", "items", "nullable", "plain", "struct", "tag_field", "values", "variants")

    def __init__(self) -> None:
        self.anything = False
        self.nullable = False
        self.plain: set[type] = set()
        self.struct: type[msgspec.Struct] | None = None
        self.tag_field = ""
        self.variants: dict[str, Shape] = {}
        self.items: Shape | None = None
        self.values: Shape | None = None
        self._members: tuple[StructMember, ...] | None = None

    @property
    def members(self) -> tuple[StructMember, ...]:
        """The members of its object."""
        if self._members is None:
            fields = msgspec.structs.fields(self.struct) if self.struct else ()
            self._members = tuple(StructMember(f.name, f.encode_name, f.required, f.type) for f in fields)
        return self._members

    @property
    def expected(self) -> str:
        """What is wanted, in words for an error."""
        words = [word for kind, word in PLAIN_TYPES.items() if kind in self.plain]
        if self.struct or self.variants or self.values is not None:
            words.append("an object")
        if self.items is not None:
            words.append("a list")
        return " or ".join(words)


@cache
def shape_of(kind: Any) -> Shape:
    """The shape of a type that the vocabulary uses."""
    shape = Shape()
    origin = get_origin(kind)
    choices = get_args(kind) if origin is Union or origin is types.UnionType else (kind,)
    structs = [choice for choice in choices if isinstance(choice, type) and issubclass(choice, msgspec.Struct)]
    for choice in choices:
        if choice is Any:
            shape.anything = True
        elif choice is type(None):
            shape.nullable = True
        elif get_origin(choice) is list:
            shape.items = shape_of(get_args(choice)[0])
        elif get_origin(choice) is dict:
            shape.values = shape_of(get_args(choice)[1])
        elif choice in PLAIN_TYPES:
            shape.plain.add(choice)
    if structs and structs[0].__struct_config__.tag is not None:
        shape.tag_field = str(structs[0].__struct_config__.tag_field)
        for struct in structs:
            one = Shape()
            one.struct = struct
            shape.variants[str(struct.__struct_config__.tag)] = one
    elif structs:
        shape.struct = structs[0]
    return shape
