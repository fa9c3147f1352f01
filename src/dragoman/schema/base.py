"""What every type of the vocabulary is made of: Model, Maybe, Unknown, and the one encoder.

A member that a peer may leave out is `Maybe[T] = UNSET`, so absent, null and a value stay three different things.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET as UNSET
from msgspec import UnsetType, field

T = TypeVar("T")

Maybe: TypeAlias = T | UnsetType | None
"""A member that may be absent (UNSET, falsy), null (None) or a value."""


class Model(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, repr_omit_defaults=True, gc=False):
    """An object of the protocol: camelCase on the wire, keyword-only, with `_meta`.

    Messages are trees, so the cycle collector need not look at them: it would at every stream.
    """

    # Whether a fault anywhere inside refuses the whole message. Otherwise optional parts with a fault are dropped.
    is_strict: ClassVar[bool] = False

    meta: Maybe[dict[str, Any]] = field(default=UNSET, name="_meta")


class Marker(Model, kw_only=True):
    """An empty object whose presence says yes: most capabilities are one."""


class Empty(Model, kw_only=True):
    """Params or a result without members of their own: `{}`."""


class Unknown:
    """A member of a tagged union that this vocabulary has no type for; made only by the second pass."""

    __slots__ = ("raw", "tag")

    def __init__(self, tag: str, raw: dict[str, Any]) -> None:
        self.tag = tag
        self.raw = raw

    def __repr__(self) -> str:
        return f"Unknown({self.tag!r}, {self.raw!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]


def enc_hook(value: Any) -> Any:
    """Say what msgspec does not know how to encode: an Unknown is what it was on the wire."""
    if isinstance(value, Unknown):
        return value.raw
    raise NotImplementedError(f"{type(value).__name__} is not JSON")


_encoder = msgspec.json.Encoder(enc_hook=enc_hook)

encode_plain = _encoder.encode
"""Encode as JSON; a lone surrogate is a UnicodeEncodeError. For the hot path, which calls `encode` then."""


def encode(value: Any) -> bytes:
    """Encode a Model or builtins as JSON; a lone surrogate becomes U+FFFD, so the bytes are always UTF-8."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        # Rare (a peer cut an emoji in two), so the cure may be slow.
        from dragoman.schema.lenient import replace_surrogates

        return _encoder.encode(replace_surrogates(to_json(value)))


def to_json(value: Any) -> Any:
    """Turn a Model into JSON builtins, without what is UNSET."""
    return msgspec.to_builtins(value, enc_hook=enc_hook)
