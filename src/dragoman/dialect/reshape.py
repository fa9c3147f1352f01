"""Take JSON objects apart and rebuild them, for the codecs of all dialects.

The vocabulary is official v1 JSON; what a dialect adds is side data under `_meta.dragoman`. `Lifted` builds a
vocabulary object from a wire object, `Lowered` the reverse. Both keep unknown members, so a relay loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dragoman.errors import Unsayable

Json = Any
Object = dict[str, Any]

SIDE_DATA_KEY: Final = "dragoman"
INFERRED_KEY: Final = "inferred"

# Never written to a dialect that lacks it: secrets are not sent in extension members.
SECRET_MEMBERS: Final = frozenset({"credentials"})

# Names of the one encoding that every dialect has; ASCII is a subset.
UTF_8_NAMES: Final = frozenset({"utf-8", "utf8", "ascii", "us-ascii"})
_TEXT_FILE_METHODS: Final = frozenset({"fs/read_text_file", "fs/write_text_file"})

# Marks a read that only tests whether a file exists: its text does not matter.
PROBE_KEY: Final = "probe"


class _Absent:
    __slots__ = ()

    def __bool__(self) -> bool:
        return False


ABSENT: Final = _Absent()


def json_side_data(obj: Json) -> Object:
    """Return the side data of a vocabulary object; empty if there is none."""
    meta = obj.get("_meta") if isinstance(obj, dict) else None
    side = meta.get(SIDE_DATA_KEY) if isinstance(meta, dict) else None
    return side if isinstance(side, dict) else {}


def check_encoding(dialect: str, method: str, params: Object) -> None:
    """Raise for an encoding that a dialect without encodings cannot use (5.14, 24)."""
    if method in _TEXT_FILE_METHODS:
        side = json_side_data(params)
        encoding = "utf-8" if side.get(PROBE_KEY) else side.get("encoding", "utf-8")
        if str(encoding).lower().replace("_", "-") not in UTF_8_NAMES:
            raise Unsayable(dialect, f"text in the encoding {encoding}")


def with_json_side_data(obj: Object, **members: Json) -> Object:
    """Return a copy with these members added to its side data."""
    meta = obj.get("_meta")
    meta = dict(meta) if isinstance(meta, dict) else {}
    meta[SIDE_DATA_KEY] = {**json_side_data(obj), **members}
    return {**obj, "_meta": meta}


class Lifted:
    """Builds a vocabulary object from a wire object: take members, put members, note inferred ones."""

    __slots__ = ("inferred", "meta", "out", "rest", "side_data")

    def __init__(self, obj: Json) -> None:
        self.rest: Object = dict(obj) if isinstance(obj, dict) else {}
        meta = self.rest.pop("_meta", ABSENT)
        self.meta: Json = meta
        self.out: Object = {}
        self.side_data: Object = {}
        self.inferred: list[str] = []

    def take(self, name: str, default: Json = ABSENT) -> Json:
        """Remove a wire member and return its value."""
        return self.rest.pop(name, default)

    def put(self, name: str, value: Json) -> None:
        """Set a vocabulary member unless the value is absent."""
        if value is not ABSENT:
            self.out[name] = value

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename members: wire name -> vocabulary name."""
        for wire, name in names.items():
            self.put(name, self.rest.pop(wire, ABSENT))

    def move_to_side_data(self, names: Mapping[str, str] | Iterable[str]) -> None:
        """Move members that the vocabulary lacks to the side data: wire name -> side data name."""
        pairs = names.items() if isinstance(names, Mapping) else ((name, name) for name in names)
        for wire, name in pairs:
            value = self.rest.pop(wire, ABSENT)
            if value is not ABSENT:
                self.side_data[name] = value

    def infer(self, name: str, value: Json) -> None:
        """Set a member that the peer did not send, and note that."""
        self.out[name] = value
        self.inferred.append(name)

    def build(self) -> Object:
        """Return the vocabulary object: members, unknown members and side data."""
        out = {**self.rest, **self.out}
        side = dict(self.side_data)
        if self.inferred:
            side[INFERRED_KEY] = list(self.inferred)
        if self.meta is not ABSENT or side:
            if side:
                out["_meta"] = {**(self.meta if isinstance(self.meta, dict) else {}), SIDE_DATA_KEY: side}
            else:
                out["_meta"] = self.meta
        return out


class Lowered:
    """Builds a wire object from a vocabulary object; inferred members are dropped at the start."""

    __slots__ = ("inferred", "meta", "out", "rest", "side_data")

    def __init__(self, obj: Json) -> None:
        self.rest: Object = dict(obj) if isinstance(obj, dict) else {}
        meta = self.rest.pop("_meta", ABSENT)
        self.meta: Json = dict(meta) if isinstance(meta, dict) else meta
        side = self.meta.pop(SIDE_DATA_KEY, None) if isinstance(self.meta, dict) else None
        self.side_data: Object = dict(side) if isinstance(side, dict) else {}
        if isinstance(self.meta, dict) and not self.meta and isinstance(side, dict):
            self.meta = ABSENT
        noted = self.side_data.pop(INFERRED_KEY, ())
        self.inferred = frozenset(name for name in (noted if isinstance(noted, list) else ()) if isinstance(name, str))
        for name in self.inferred:
            self.rest.pop(name, None)
        self.out: Object = {}

    def take(self, name: str, default: Json = ABSENT) -> Json:
        """Remove a vocabulary member and return its value."""
        return self.rest.pop(name, default)

    def take_side_data(self, name: str, default: Json = ABSENT) -> Json:
        """Remove a member of the side data and return its value."""
        return self.side_data.pop(name, default)

    def put(self, name: str, value: Json) -> None:
        """Set a wire member unless the value is absent."""
        if value is not ABSENT:
            self.out[name] = value

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename members: wire name -> vocabulary name (the table of `Lifted.rename`)."""
        for wire, name in names.items():
            self.put(wire, self.rest.pop(name, ABSENT))

    def move_from_side_data(self, names: Mapping[str, str] | Iterable[str]) -> None:
        """Move members from the side data: wire name -> side data name (the table of `Lifted.move_to_side_data`)."""
        pairs = names.items() if isinstance(names, Mapping) else ((name, name) for name in names)
        for wire, name in pairs:
            self.put(wire, self.side_data.pop(name, ABSENT))

    def build(self, unsupported: Iterable[str] = ()) -> Object:
        """Return the wire object; `unsupported` are vocabulary members that this dialect lacks."""
        for name in unsupported:
            value = self.rest.pop(name, ABSENT)
            if value is not ABSENT:
                self.side_data[name] = value
        out = {**self.rest, **self.out}
        side = {name: value for name, value in self.side_data.items() if name not in SECRET_MEMBERS}
        if side:
            out["_meta"] = {**(self.meta if isinstance(self.meta, dict) else {}), SIDE_DATA_KEY: side}
        elif self.meta is not ABSENT:
            out["_meta"] = self.meta
        return out
