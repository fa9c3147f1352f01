"""The second pass: reads what the strict decode refused, by one generic function over the types.

Entered only after a failure, so it may be slow, and nothing imports it before. It raises nothing but ProtocolError.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import Unknown
from dragoman.schema.introspect import PLAIN_TYPES, Shape, shape_of
from dragoman.wire.repair import clean_text, clean_values, repair

MAX_DEPTH = 128
"""Deepest nesting the second pass reads: real messages stay below 20, and Python allows some 1000 frames."""

MAX_FAULTS = 1000
"""Most faults one error lists, so that a hostile message is not answered with a far longer one."""


class Fault(NamedTuple):
    """What is wrong with one part of a message; a fault that is not fatal cost only that part.

    A fault inside a strict object stays fatal, also where the object is optional.
    """

    path: str
    message: str
    fatal: bool = True
    is_strict: bool = False

    def __str__(self) -> str:
        return f"{self.path} {self.message}" if self.path else self.message


def parse(raw: bytes) -> Any:
    """Parse JSON as far as it can be understood; raises ProtocolError (parse_error) where it cannot."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError:
        raise _too_deep_error() from None
    return repair(raw)


def replace_surrogates(value: Any, depth: int = 0) -> Any:
    """Copy JSON builtins with every lone surrogate replaced by U+FFFD."""
    try:
        return clean_values(value, MAX_DEPTH - depth)
    except RecursionError:
        raise _too_deep_error() from None


def read_leniently(kind: Any, value: Any) -> tuple[Any, list[Fault]]:
    """Read builtins as a type; invalid optional parts are dropped and reported, others are invalid_params."""
    shape = shape_of(kind)
    reader = _Reader()
    try:
        # Clients answer `result: null` where an object is due (docs/protocol/peers.md#null-results).
        found = reader.read(shape, {} if value is None and not shape.anything else value, "", 0)
    except RecursionError:
        raise _too_deep_error() from None
    if found is _BAD or any(fault.is_strict for fault in reader.faults):
        raise _invalid_params_error([fault for fault in reader.faults if fault.fatal])
    return found, reader.faults


def _invalid_params_error(faults: list[Fault]) -> ProtocolError:
    errors = [{"path": fault.path, "message": fault.message} for fault in faults[:MAX_FAULTS]]
    data: dict[str, Any] = {"errors": errors}
    if len(faults) > MAX_FAULTS:
        data["omitted"] = len(faults) - MAX_FAULTS
    first = f"{faults[0].path or 'the message'} {faults[0].message}"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return ProtocolError(Kind.INVALID_PARAMS, first + more, data)


class _Bad:
    """Stands for a part that could not be read; its faults have been written down."""


_BAD = _Bad()


class _Reader:
    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def add_fault(self, path: str, message: str) -> Any:
        self.faults.append(Fault(path, message))
        return _BAD

    def make_nonfatal(self, start: int) -> None:
        """What went wrong since `mark` was in an optional part: it is dropped, not fatal."""
        self.faults[start:] = [fault._replace(fatal=fault.is_strict) for fault in self.faults[start:]]

    def make_strict(self, start: int) -> None:
        """What went wrong since `start` was in a strict object: it refuses the message."""
        self.faults[start:] = [fault._replace(fatal=True, is_strict=True) for fault in self.faults[start:]]

    def read(self, shape: Shape, value: Any, path: str, depth: int, *, optional: bool = False) -> Any:
        if depth > MAX_DEPTH:
            return self.add_fault(path, "is nested too deeply")
        if shape.anything:
            return replace_surrogates(value, depth)
        if value is None:
            if shape.nullable:
                return None
            if shape.items is not None:  # agents written in Go send null for an empty list
                return []
            return self.add_fault(path, "must not be null")
        if isinstance(value, dict):
            if shape.variants:
                return self.read_variant(shape, value, path, depth)
            if shape.struct is not None:
                return self.read_struct(shape, value, path, depth)
            if shape.values is not None:
                found = self.read_parts(shape.values, value.items(), path, depth, optional)
                return {clean_text(key): item for key, item in found.items()} if isinstance(found, dict) else found
        elif isinstance(value, (list, tuple)) and shape.items is not None:
            found = self.read_parts(shape.items, enumerate(value), path, depth, optional)
            return list(found.values()) if isinstance(found, dict) else found
        elif (plain := _read_scalar(shape, value)) is not _BAD:
            return plain
        return self.add_fault(path, f"must be {shape.expected}, not {_type_name(value)}")

    def read_struct(self, shape: Shape, value: dict[str, Any], path: str, depth: int) -> Any:
        found: dict[str, Any] = {}
        whole, start = True, len(self.faults)
        for member in shape.members:
            at = f"{path}.{member.key}" if path else member.key
            if member.key not in value:
                if member.required:
                    self.add_fault(at, "is missing")
                    whole = False
                continue
            mark = len(self.faults)
            part = self.read(member.shape, value[member.key], at, depth + 1, optional=not member.required)
            if part is not _BAD:
                found[member.name] = part
            elif member.required:
                whole = False
            else:
                self.make_nonfatal(mark)
        if shape.struct is not None and getattr(shape.struct, "is_strict", False):
            self.make_strict(start)
        return shape.struct(**found) if whole and shape.struct else _BAD

    def read_variant(self, shape: Shape, value: dict[str, Any], path: str, depth: int) -> Any:
        tag = value.get(shape.tag_field)
        at = f"{path}.{shape.tag_field}" if path else shape.tag_field
        if shape.tag_field not in value:
            return self.add_fault(at, "is missing")
        if not isinstance(tag, str):
            return self.add_fault(at, f"must be a string, not {_type_name(tag)}")
        known = shape.variants.get(tag)
        if known is None:
            return Unknown(clean_text(tag), replace_surrogates(value, depth))
        return self.read_struct(known, value, path, depth)

    def read_parts(
        self, shape: Shape, parts: Iterable[tuple[Any, Any]], path: str, depth: int, optional: bool
    ) -> dict[Any, Any] | _Bad:
        """Read the items of a list or map, by position or key; bad ones are left out of an optional one."""
        found = {}
        whole = True
        for key, item in parts:
            mark = len(self.faults)
            part = self.read(shape, item, f"{path}[{key!r}]", depth + 1)
            if part is not _BAD:
                found[key] = part
            elif optional:
                self.make_nonfatal(mark)
            else:
                whole = False
        return found if whole else _BAD


def _read_scalar(shape: Shape, value: Any) -> Any:
    """A string, number or boolean as one of the plain types of a shape; integral floats are integers."""
    if isinstance(value, bool):
        return value if bool in shape.plain else _BAD
    if isinstance(value, str):
        return replace_surrogates(value) if str in shape.plain else _BAD
    if isinstance(value, int):
        return value if int in shape.plain else _as_float(value) if float in shape.plain else _BAD
    if isinstance(value, float):
        if float in shape.plain:
            return value
        return int(value) if int in shape.plain and value.is_integer() else _BAD
    return _BAD


def _as_float(value: int) -> Any:
    try:
        return float(value)
    except OverflowError:
        return _BAD


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return PLAIN_TYPES.get(type(value), type(value).__name__)


def _too_deep_error() -> ProtocolError:
    return ProtocolError(Kind.PARSE_ERROR, "the message is nested too deeply")
