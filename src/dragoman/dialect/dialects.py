"""`Dialect`, which describes how one kind of peer speaks, and the dialects by name.

A dialect's modules are imported on first use: a v1 agent never loads the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import msgspec

from dragoman.dialect.emulator import Emulator, EmulatorSettings
from dragoman.dialect.text_chunk import ChunkForm
from dragoman.schema.side import Side

TranslateCall = Callable[[Side, str, Any], tuple[str, Any]]
TranslateResult = Callable[[Side, str, Any], Any]


class NativeForm(msgspec.Struct, frozen=True, kw_only=True):
    """What a dialect that is the vocabulary itself still writes in another way."""

    is_plain_call: Callable[[str, Any], bool]  # whether a call of ours passes as it is
    translated_results: Collection[str]  # methods whose results are lifted
    translated_stops: Collection[str]  # stop reasons that are lowered
    is_incomplete: Callable[[bytes], bool]  # whether an update of an agent lacks members that clients require


class TurnCancel(msgspec.Struct, frozen=True, kw_only=True):
    """How a client cancels a turn."""

    method: str = "session/cancel"
    session_member: str = "sessionId"
    is_request: bool = False


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of peer spells the vocabulary: four functions, tables, an emulator, and traits.

    Nobody outside this package compares names of dialects: what differs is a trait. The defaults of the traits describe
    a dialect that is neither official nor lacks anything.
    """

    name: str
    lift_call: TranslateCall
    lower_call: TranslateCall
    lift_result: TranslateResult
    lower_result: TranslateResult
    error_codes: dict[str, int]
    chunk_forms: tuple[ChunkForm, ...]  # of plain text chunks, which bypass codec and flow
    emulators: Mapping[Side, Callable[[Side, EmulatorSettings], Emulator]] = {}  # by the side of the peer
    # Pattern and replacement, by the side that receives the call: the names of members that an error can be about.
    error_paths: Mapping[Side, tuple[tuple[str, str], ...]] = {}
    # Method, or method and " result" -> members that the codec does not carry and the emulator does.
    emulated_members: Mapping[str, frozenset[str]] = {}

    # --- traits of the protocol
    native: NativeForm | None = None  # set if the vocabulary passes as it is
    official: bool = False  # gets no side data in results, and announces what official clients must announce
    version: int | None = None  # agents must answer with this protocol version or a lower one
    rejects_versions: bool = False  # an agent rejects a client of another protocol version
    checks_ids: bool = False  # a request with a null or a fractional id is invalid
    cancels: bool = False  # has `$/cancel_request`; other peers would report an error
    turn_cancel: TurnCancel = TurnCancel()
    is_wide: bool = False  # can say all of the vocabulary; for clients of the others it is narrowed

    # --- traits of agents
    one_folder: bool = False  # folder and MCP servers belong to the connection, and come with initialize
    opens_in_mode: bool = False  # session/new carries the mode; in others it is set afterwards
    appends_system_prompt: bool = False  # without announcing it
    reason_not_shared: str = ""  # why sessions of several users cannot share an agent process
    extra_capabilities: frozenset[str] = frozenset()  # that agents announce: streaming, audio, tools
    extra_prompt_capabilities: frozenset[str] = frozenset()  # streaming, cancellation, attachments, text

    # --- traits of clients
    can_ask: bool = True  # clients can be asked; if not, the emulator answers for them
    client_chooses_ids: bool = False  # of sessions; another connection needs the agent's own ids
    names_auth_method: bool = True  # if not, the params of authenticate have no meaning
    has_file_extensions: bool = True  # can carry file calls beyond text
    has_workspace_options: bool = False  # can carry encodings, timeouts, signals and pseudo-terminals

    @property
    def is_native(self) -> bool:
        """Whether the vocabulary passes as it is."""
        return self.native is not None

    @property
    def has_message_ids(self) -> bool:
        """Whether chunks can carry the id of their message."""
        return any(form.has_ids for form in self.chunk_forms)

    def open_emulator(self, peer_side: Side, settings: EmulatorSettings) -> Emulator | None:
        """Return the emulator for a peer of this side; None if it needs none."""
        make = self.emulators.get(peer_side)
        return None if make is None else make(peer_side, settings)

    def peer_path(self, receiver: Side, path: str) -> str:
        """Return the path of an error as the peer wrote it: `workingDirectory` for a client that never sent `cwd`."""
        for pattern, words in self.error_paths.get(receiver, ()):
            path = re.sub(pattern, words, path)
        return path.removesuffix(".")


def parts_of(codec: ModuleType, tables: ModuleType) -> dict[str, Any]:
    """Return the functions and tables of a dialect's modules `codec` and `tables`, as arguments of `Dialect`."""
    return {
        "name": tables.NAME,
        "lift_call": codec.lift_call,
        "lower_call": codec.lower_call,
        "lift_result": codec.lift_result,
        "lower_result": codec.lower_result,
        "error_codes": tables.CODES,
        "chunk_forms": tables.CHUNK_FORMS,
        "error_paths": getattr(tables, "ERROR_PATHS", {}),
        "emulated_members": getattr(tables, "EMULATED_MEMBERS", {}),
    }


# Name -> package with a `DIALECT`. A dialect is one row here and one rule in detect.py.
PACKAGES: Final[dict[str, str]] = {
    "v1": "dragoman.dialect.v1",
    "v2": "dragoman.dialect.v2",
    "banjo": "dragoman.dialect.banjo",
    "2025.1": "dragoman.dialect.y2025",
    "crow": "dragoman.dialect.crow",
    "draft": "dragoman.dialect.draft",
}
DIALECT_NAMES: tuple[str, ...] = tuple(PACKAGES)

# Of a peer that has not shown another one.
DEFAULT_DIALECT: Final = "v1"


# Version of the official protocol -> its dialect.
NAME_BY_VERSION: Final[dict[int, str]] = {1: "v1", 2: "v2"}
OFFICIAL_VERSIONS: Final = tuple(NAME_BY_VERSION)


def dialect_of_version(version: int) -> str:
    """Return the dialect of an official version; raise ValueError with the known ones."""
    if version not in NAME_BY_VERSION:
        raise ValueError(f"version {version} is not known; choose one of {', '.join(map(str, OFFICIAL_VERSIONS))}")
    return NAME_BY_VERSION[version]


@cache
def load_dialect(name: str) -> Dialect:
    """Return a dialect by name; raise ValueError with the known names."""
    if name not in PACKAGES:
        raise ValueError(f"unknown dialect {name!r}; choose one of {', '.join(DIALECT_NAMES)}")
    found: Dialect = import_module(PACKAGES[name]).DIALECT
    return found
