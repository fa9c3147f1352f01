"""The five dialects by name, with their parts; a sixth (`v2`) will be one more row.

A dialect's modules are imported when it is first asked for: an agent that speaks v1 never loads the others.
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
    """How one peer spells the vocabulary: four functions, a column of error numbers, and its ledger."""

    name: str
    lift_call: TranslateCall
    lower_call: TranslateCall
    lift_result: TranslateResult
    lower_result: TranslateResult
    error_codes: dict[str, int]
    open_emulator: Callable[[Side, EmulatorSettings], Emulator | None]
    chunk_form: ChunkForm  # of a bare piece of text, which needs neither spelling nor flow
    cancels: bool  # whether it has `$/cancel_request`; a peer that has not would take it for a fault


FOLDERS = {"v1": "v1", "banjo": "banjo", "2025.1": "y2025", "crow": "crow", "draft": "draft"}
DIALECT_NAMES: tuple[str, ...] = tuple(FOLDERS)

# Only official v1 knows requests that are taken back (reference 5.14-32), and banjo, which is v1 in all it leaves open.
_WITH_CANCEL_REQUEST = frozenset({"v1", "banjo"})


@cache
def load_dialect(name: str) -> Dialect:
    """The dialect of that name; a ValueError lists the names there are."""
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
