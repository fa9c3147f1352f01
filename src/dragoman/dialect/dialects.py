"""The five dialects by name; a sixth (`v2`) will be one more row.

A dialect's modules are imported on first use: a v1 agent never loads the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from dragoman.dialect.emulator import Emulator, EmulatorSettings
from dragoman.dialect.text_chunk import ChunkForm
from dragoman.schema.side import Side

TranslateCall = Callable[[Side, str, Any], tuple[str, Any]]
TranslateResult = Callable[[Side, str, Any], Any]


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How one peer spells the vocabulary: four functions, error codes, and an emulator."""

    name: str
    lift_call: TranslateCall
    lower_call: TranslateCall
    lift_result: TranslateResult
    lower_result: TranslateResult
    error_codes: dict[str, int]
    open_emulator: Callable[[Side, EmulatorSettings], Emulator | None]
    chunk_form: ChunkForm  # of a plain text chunk, which bypasses codec and flow
    cancels: bool  # whether it has `$/cancel_request`; other peers would report an error


FOLDERS = {"v1": "v1", "banjo": "banjo", "2025.1": "y2025", "crow": "crow", "draft": "draft"}
DIALECT_NAMES: tuple[str, ...] = tuple(FOLDERS)

# Only official v1 has request cancellation (docs/protocol/dialect-matrix.md#official-only), and banjo, which follows v1
# where it says nothing.
_WITH_CANCEL_REQUEST = frozenset({"v1", "banjo"})


@cache
def load_dialect(name: str) -> Dialect:
    """Return a dialect by name; raise ValueError with the known names."""
    if name not in FOLDERS:
        raise ValueError(f"unknown dialect {name!r}; choose one of {', '.join(DIALECT_NAMES)}")
    folder = f"dragoman.dialect.{FOLDERS[name]}"
    codec = import_module(f"{folder}.codec")
    tables = import_module(f"{folder}.tables")
    return Dialect(
        name=name,
        lift_call=codec.lift_call,
        lower_call=codec.lower_call,
        lift_result=codec.lift_result,
        lower_result=codec.lower_result,
        error_codes=tables.CODES,
        open_emulator=import_module(f"{folder}.emulator").open_emulator,
        chunk_form=tables.CHUNK,
        cancels=name in _WITH_CANCEL_REQUEST,
    )
