"""Mutations: most give valid JSON with unusual values, the rest break the bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from tests.fuzz.seeds import LIVE, Seed, Seeds


def _fixed(*values: Any) -> tuple[Any, ...]:
    """Return the values as bytes, so that a later change cannot affect values that frames share."""
    return tuple(value if isinstance(value, Raw) else Raw(msgspec.json.encode(value)) for value in values)


# One of every type and the ends of each; Raw is JSON that no encoder of ours would write.
ODD = _fixed(
    None, True, False, 0, 1, -1, 3.5, -0.0, "", "x", " ", "null", "0", [], {}, [[]], [{}], [None], {"": None},
    {"type": "text", "text": "t"}, {"type": None}, {"type": "nobody knows"}, {"name": 1}, ["a", 1, None], "/", "..",
    "file:///etc", "\x00", "\x1b[2J", "é𝕏🦜", "a" * 300, "²", "\u202e", 2**31, 2**53 + 1, -(2**63), 2**64,
    Raw(b"1e5"), Raw(b"1E400"), Raw(b"-1e400"), Raw(b"9" * 30), Raw(b"9" * 400), Raw(b"-" + b"8" * 5000),
    Raw(b"0.1e-999"), Raw(b'"\\ud83e\\udd9c"'), Raw(b'"\\ud800"'), Raw(b'"\\udc00 \\u0000"'), Raw(b'"\\u0064ragoman"'),
)  # fmt: skip

NO_JSON: tuple[Any, ...] = (
    Raw(b"NaN"), Raw(b"-Infinity"), Raw(b"Infinity"), Raw(b'"\xff\xfe"'), Raw(b'"\xc3"'), Raw(b"'x'"), Raw(b"01"),
    Raw(b'"\\q"'), Raw(b'"a\tb"'), Raw(b"nul"), Raw(b"[1,]"), Raw(b"{,}"), Raw(b'{"a" 1}'), Raw(b'"open'), Raw(b""),
)  # fmt: skip

ODD_IDS = _fixed(
    None, True, 1.5, -7, "", "a", "0", 0, 1, 2, [], {}, [1], {"id": 1}, 2**70, Raw(b"1e400"), Raw(b"7" * 600), "²",
    Raw(b'"\\ud800"'),
)  # fmt: skip

# What a peer might try to slip in as our own notes.
TAINTS = _fixed(
    {"dragoman": {"inferred": ["sessionId", "cwd", "update"]}}, {"dragoman": {"inferred": 5, "credentials": {}}},
    {"dragoman": []}, {"dragoman": {"sessionId": 1, "mode": [], "status": {}}, "kept": 1}, {}, [], None, 7,
    Raw(b'{"\\u0064ragoman":{"stopReason":"error"}}'),
)  # fmt: skip

DEPTHS = (3, 20, 60, 120, 199, 250, 500, 900, 1500, 5000)


class Mutator:
    """Creates frames from seeds; the same frames for the same random seed."""

    def __init__(self, seeds: Seeds, rng: random.Random) -> None:
        self._seeds = seeds
        self._rng = rng
        self._last_id = 1_000_000
        self._changes: tuple[Callable[[Any, Seed], None], ...] = (
            *[self._replace] * 6, *[self._graft] * 3, *[self._rename] * 3, *[self._drop] * 2, self._double,
            self._nest, self._say_otherwise, self._taint, self._swap, self._add, self._change_id,
        )  # fmt: skip
        self._breaks: tuple[Callable[[bytes], bytes], ...] = (
            *[self._flip] * 3, self._cut, self._insert, self._repeat, self._remove, self._make_batch, _as_it_is,
        )  # fmt: skip

    def frame(self, live: str) -> bytes:
        """The next mutated frame; `live` is the id of a session that exists."""
        rng = self._rng
        made = self._mutated(rng.choice(rng.choice(self._seeds.groups)))
        if rng.random() < 0.9:
            made = made.replace(LIVE.encode(), live.encode())
        return made

    def about(self, method: str) -> bytes:
        """The next mutated frame of one method."""
        groups = [group for group in self._seeds.groups if b'"method":"%b"' % method.encode() in group[0].frame]
        return self._mutated(self._rng.choice(self._rng.choice(groups)))

    def answer(self, method: str, id: Any) -> bytes:
        """A mutated answer to a request of the other end."""
        results = self._seeds.results.get(method) or self._rng.choice(list(self._seeds.results.values()))
        return self._mutated(self._rng.choice(results), id)

    def _mutated(self, seed: Seed, id: Any = None) -> bytes:
        rng = self._rng
        frame = msgspec.json.decode(seed.frame)
        if id is not None:
            frame["id"] = id
        elif "id" in frame:
            self._last_id += 1
            frame["id"] = self._last_id if rng.random() < 0.8 else f"id-{self._last_id}"
        broken = rng.random() < 0.25
        for _ in range(rng.choice((0, 1)) if broken else rng.choice((1, 1, 1, 2, 3))):
            rng.choice(self._changes)(frame, seed)
        if not broken:
            return msgspec.json.encode(frame)
        change = rng.choice(self._breaks)
        if change is _as_it_is and (place := self._place(frame, seed)):
            place[0][place[1]] = rng.choice(NO_JSON)
        return change(msgspec.json.encode(frame))

    # --- of what a frame says ---------------------------------------------------------------------------------

    def _place(self, frame: Any, seed: Seed) -> tuple[Any, Any] | None:
        """Return a random part as its container and its key; None if an earlier change removed it."""
        *path, last = self._rng.choice(seed.paths)
        holder = frame
        for name in path:
            if not _has(holder, name):
                return None
            holder = holder[name]
        return (holder, last) if _has(holder, last) and last != "id" else None

    def _replace(self, frame: Any, seed: Seed) -> None:
        if place := self._place(frame, seed):
            place[0][place[1]] = self._rng.choice(ODD)

    def _graft(self, frame: Any, seed: Seed) -> None:
        if place := self._place(frame, seed):
            place[0][place[1]] = self._rng.choice(self._seeds.parts)

    def _rename(self, frame: Any, seed: Seed) -> None:
        place = self._place(frame, seed)
        if place and isinstance(place[0], dict):
            place[0][self._rng.choice(self._seeds.names)] = place[0].pop(place[1])

    def _drop(self, frame: Any, seed: Seed) -> None:
        if place := self._place(frame, seed):
            del place[0][place[1]]

    def _add(self, frame: Any, seed: Seed) -> None:
        place = self._place(frame, seed)
        if place and isinstance(place[0], dict):
            place[0][self._rng.choice(self._seeds.names)] = self._rng.choice(self._seeds.parts)

    def _double(self, frame: Any, seed: Seed) -> None:
        """The same key twice in one object."""
        place = self._place(frame, seed)
        if place and isinstance(place[0], dict) and isinstance(place[0][place[1]], dict):
            inner = place[0][place[1]]
            if inner:
                name = self._rng.choice(list(inner))
                first = msgspec.json.encode({name: self._rng.choice(ODD)})
                place[0][place[1]] = Raw(first[:-1] + b"," + msgspec.json.encode(inner)[1:])

    def _nest(self, frame: Any, seed: Seed) -> None:
        if place := self._place(frame, seed):
            depth = self._rng.choice(DEPTHS)
            opening, closing = self._rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"_meta":', b"}]")))
            place[0][place[1]] = Raw(opening * depth + b"1" + closing * depth)

    def _say_otherwise(self, frame: Any, _: Seed) -> None:
        rng = self._rng
        frame["method"] = rng.choice(self._seeds.methods) if rng.random() < 0.8 else rng.choice(("_x/y", "", "$/z", 5))

    def _taint(self, frame: Any, seed: Seed) -> None:
        place = self._place(frame, seed)
        if place and isinstance(place[0], dict):
            inner = place[0][place[1]]
            (inner if isinstance(inner, dict) else place[0])["_meta"] = self._rng.choice(TAINTS)

    def _swap(self, frame: Any, seed: Seed) -> None:
        one, other = self._place(frame, seed), self._place(frame, seed)
        if one and other:
            values = one[0][one[1]], other[0][other[1]]
            # Copies, for a part put into itself would never end.
            one[0][one[1]], other[0][other[1]] = (Raw(msgspec.json.encode(value)) for value in reversed(values))

    def _change_id(self, frame: Any, _: Seed) -> None:
        if "id" in frame and self._rng.random() < 0.3:
            del frame["id"]
        else:
            frame["id"] = self._rng.choice(ODD_IDS)

    # --- of the bytes -----------------------------------------------------------------------------------------

    def _somewhere(self, data: bytes) -> int:
        return self._rng.randrange(len(data) + 1)

    def _flip(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._rng.choice((1, 1, 2, 5))):
            changed[self._rng.randrange(len(changed))] ^= 1 << self._rng.randrange(8)
        return bytes(changed)

    def _cut(self, data: bytes) -> bytes:
        return data[: self._somewhere(data)] or b"{"

    def _insert(self, data: bytes) -> bytes:
        at = self._somewhere(data)
        return data[:at] + self._rng.randbytes(self._rng.choice((1, 2, 8))) + data[at:]

    def _repeat(self, data: bytes) -> bytes:
        start, end = sorted((self._somewhere(data), self._somewhere(data)))
        return data[:end] + data[start:end] + data[end:]

    def _remove(self, data: bytes) -> bytes:
        start, end = sorted((self._somewhere(data), self._somewhere(data)))
        return data[:start] + data[end:] or b"["

    def _make_batch(self, data: bytes) -> bytes:
        return b"[" + data + b"]"


def _has(holder: Any, name: str | int) -> bool:
    if isinstance(name, int):
        return isinstance(holder, list) and name < len(holder)
    return isinstance(holder, dict) and name in holder


def _as_it_is(data: bytes) -> bytes:
    return data
