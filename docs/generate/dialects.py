"""Print docs/dialects.md: what each dialect can express, read from the code.

Every cell comes from a table or from lowering a message; the examples are those of tests/data/dialects. Only the prose
is written here. `make docs` runs this script, and a test compares the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.dialect.dialects import DIALECT_NAMES, PACKAGES, Dialect, load_dialect
from dragoman.dialect.reshape import INFERRED_KEY, SIDE_DATA_KEY, json_side_data
from dragoman.dialect.v1.tables import UPDATE_KINDS
from dragoman.errors import KINDS, ProtocolError, Unsayable
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.prompt import StopReason
from dragoman.schema.side import Side
from dragoman.schema.toolcall import ToolCallStatus

EXAMPLES = Path(__file__).parents[2] / "tests" / "data" / "dialects"
DIALECTS = [load_dialect(name) for name in DIALECT_NAMES]

MISSING = "–"
# The dialect's nearest value; the exact one is in the side data.
NEAREST = "*"

ABOUT = {name: " ".join(str(import_module(package).__doc__).split()) for name, package in PACKAGES.items()}

OPENING = """\
# The dialects

<!-- Written by docs/generate/dialects.py. Change that or the tables it reads, then run `make docs`. -->

The Agent Client Protocol exists in six dialects. Dragoman reads each of them into one vocabulary, which is official
v1 and what only v2 has, and writes every dialect from it. This page is generated from the tables of the code. It lists
what each dialect can express, and what happens to the rest. [ARCHITECTURE.md](../ARCHITECTURE.md) describes how
translation works, and [Version 2](v2.md) what changes with v2.

Dragoman never silently drops what a dialect cannot express. It carries members as *side data* under `_meta.dragoman` of
the object they belong to. It emulates a request where that is possible, and refuses it by name otherwise
(`capability_unsupported`). It drops a notification that cannot be expressed, and reports that once."""

WHO_TEXT = """\
`dragoman check dialect -- my-agent --acp` starts an agent and says which dialect it speaks. We ran these products;
all of them speak v1, so an editor of v1 needs no translation for them:

| | speak v1 |
| --- | --- |
| agents | opencode, qwen-code, gemini-cli, claude-agent-acp, copilot, kimi-code, pydantic-acp ([versions](matrix.md)) |
| clients | acpx, toad |
| SDKs | the official Python SDK 0.12.1, TypeScript SDK 2.4.0 and Rust SDK 5.0.0, and what is built with them |

Some of them have v2 too. It is spoken if the client asks for it ([what we ran](matrix_v2.md)):

| | have v2 |
| --- | --- |
| agents of both versions | claude-agent-acp 0.99.1, codex-acp 2.6.0 |
| agents of v2 only | `crow-cli acp2` 0.1.48, and agents of the SDKs' v2 |
| SDKs | the official Python SDK 1.0.0rc3, TypeScript SDK 2.4.0 and Rust SDK 5.0.0 |

The other dialects come from documents ([sources](protocol/README.md#dialects)): banjo from the notes of Banjo, an
agent for Claude Code and Codex, which v1 clients can use as it is; crow from the description of crow-acp-server;
2025.1 and draft from specifications that agents were written after. We know of no public release that speaks 2025.1
or the draft. If an agent fails at `initialize` or with unknown members, `check dialect` says which dialect it needs."""

METHODS_TEXT = f"""\
Each row is one row of `schema/methods.py`. The *receiver* is the side that handles the method. The *gate* is the
capability that the method requires. In the columns of the dialects, "yes" means the same name; `{MISSING}` means that
the dialect has no such method. The capabilities of a peer say whether it supports a method of its dialect. Names that
begin with `_` or `$/` are extensions and pass through every dialect unchanged."""

UPDATES_TEXT = """\
The value of `update.sessionUpdate` in v1, v2 and banjo, of `update["@type"]` in crow, and of `type` in 2025.1 and the
draft. Unknown kinds pass through every dialect under their own name."""

VALUES_TEXT = """\
A star marks the nearest value of a dialect that has no exact one; the exact value is in `_meta.dragoman`. `error: KIND`
means that the prompt is answered with an error of that kind."""

ERRORS_TEXT = """\
Dragoman uses kinds internally, and each dialect has a column of numbers. Every error that Dragoman sends has its kind
in `data.kind`. Dragoman reads a known `data.kind`, otherwise the first kind of the column with that number."""

SIDE_DATA_TEXT = """\
Found by running every example of the dialects' documents and every canonical message of
[tests/data/dialects](../tests/data/dialects/README.md) through the code. Paths name the object; `[]` is any item."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: str) -> str:
    """Text as code, unless there is none."""
    return f"`{text}`" if text else ""


def constants(kind: type) -> list[str]:
    """The values of a class of constants."""
    return [value for name, value in vars(kind).items() if name.isupper()]


# --- tables -------------------------------------------------------------------------------------------


def method_cells(method: Method) -> Iterator[str]:
    """A row of the method table."""
    yield code(method.name)
    yield method.side.value
    yield "either" if method.either else "request" if method.request else "notification"
    yield code(method.gate)
    yield method.scope
    yield method.stability if method.stability == "stable" else f"{method.stability}, {method.since}"
    yield from (name_cell(method.name, method_name, dialect, method) for dialect in DIALECTS)


def name_cell(name: str, lower: Callable[..., str], *arguments: object) -> str:
    """How a dialect names something: yes, another name, or a dash."""
    try:
        wire = lower(*arguments)
    except Unsayable:
        return MISSING
    return "yes" if wire == name else code(wire)


def method_name(dialect: Dialect, method: Method) -> str:
    """What a dialect calls a method."""
    return dialect.lower_call(method.side, method.name, {})[0]


def update_name(dialect: Dialect, kind: str) -> str:
    """What a dialect calls a kind of update."""
    params = {"sessionId": "s", "update": {"sessionUpdate": kind}}
    wire = dialect.lower_call(Side.CLIENT, "session/update", params)[1]
    update = wire.get("update", {})
    return str(wire.get("type") or update.get("@type") or update["sessionUpdate"])


def status_value(dialect: Dialect, status: str) -> str:
    """A dialect's value for the status of a tool call."""
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": status}
    wire = dialect.lower_call(Side.CLIENT, "session/update", {"sessionId": "s", "update": update})[1]
    sent = wire.get("data") or wire["update"]
    return word(sent["status"], sent)


def stop_value(dialect: Dialect, reason: str) -> str:
    """A dialect's value for a stop reason."""
    try:
        wire = dialect.lower_result(Side.AGENT, "session/prompt", {"stopReason": reason})
    except ProtocolError as error:
        return f"error: {code(error.kind)}"
    if "stopReason" in dialect.emulated_members.get("session/prompt result", ()):
        return f"`{reason}` of the state"  # the state that ends the turn has it
    return word(wire.get("stopReason") or wire["stop_reason"], wire)


def word(value: str, where: Mapping[str, Any]) -> str:
    """A value, marked if it replaces another."""
    return code(value) + (NEAREST if json_side_data(where) else "")


# --- side data ----------------------------------------------------------------------------------------


def examples(name: str) -> list[dict[str, Any]]:
    """Hand-made examples: of a dialect, or the canonical ones."""
    loaded: list[dict[str, Any]] = json.loads((EXAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def side_data_paths(value: Any, path: str = "") -> Iterator[str]:
    """The paths of everything under `_meta.dragoman`."""
    if isinstance(value, list):
        for item in value:
            yield from side_data_paths(item, f"{path}[]")
    if isinstance(value, dict):
        where = f"{path}." if path else ""
        yield from (f"{where}{name}" for name in json_side_data(value) if name != INFERRED_KEY)
        for name, item in value.items():
            if name != "_meta":
                yield from side_data_paths(item, f"{where}{name}")


def lost_in_v1(dialect: Dialect) -> dict[str, set[str]]:
    """What peers of a dialect send that v1 has no member for, by message."""
    found: dict[str, set[str]] = {}
    for case in examples(dialect.name):
        side, wire = Side(case["side"]), case["wire"]
        try:
            if case["kind"] == "call":
                method, lifted = dialect.lift_call(side, wire["method"], wire.get("params"))
            else:
                method = case["vocabulary"]["method"]
                lifted = dialect.lift_result(side, method, wire.get("result"))
        except ProtocolError:
            continue  # a result that means an error
        found.setdefault(message(case["kind"], method, lifted), set()).update(side_data_paths(lifted))
    return found


def lost_in_dialect(dialect: Dialect) -> dict[str, set[str]]:
    """What v1 sends that a dialect has no member for, by message."""
    found: dict[str, set[str]] = {}
    for case in examples("canonical"):
        side, method = Side(case["side"]), case["vocabulary"]["method"]
        try:
            if case["kind"] == "call":
                sent = case["vocabulary"].get("params")
                wire = dialect.lower_call(side, method, sent)[1]
            else:
                sent = case["vocabulary"].get("result")
                wire = dialect.lower_result(side, method, sent)
        except ProtocolError:
            continue  # refused as a whole: the tables above say so
        found.setdefault(message(case["kind"], method, sent), set()).update(side_data_paths(wire))
    return found


def message(kind: str, method: str, sent: Any) -> str:
    """How a message is named in the tables: its method, and for updates their kind."""
    update = sent.get("update") if isinstance(sent, dict) else None
    which = update.get("sessionUpdate") if isinstance(update, dict) else None
    return f"{code(method)} {which or ''}".rstrip() if kind == "call" else f"{code(method)} result"


def member_rows(found: Mapping[str, set[str]]) -> list[list[str]]:
    """Rows of messages and the members found in them; messages without any are left out."""
    return [[name, ", ".join(map(code, sorted(paths)))] for name, paths in sorted(found.items()) if paths]


def section(dialect: Dialect) -> Iterator[str]:
    """The side data of one dialect."""
    for title, found in (
        (f"Sent by {dialect.name} peers, carried as `_meta.{SIDE_DATA_KEY}` in the vocabulary", lost_in_v1(dialect)),
        (f"Sent by others, carried to {dialect.name} peers as `_meta.{SIDE_DATA_KEY}`", lost_in_dialect(dialect)),
    ):
        rows = member_rows(found)
        yield f"{title}:" + ("\n\n" + table(("message", "members"), rows) if rows else " nothing.")


def page() -> Iterator[str]:
    """The page, paragraph by paragraph."""
    yield OPENING
    yield table(("dialect", "what it is"), ([code(name), ABOUT[name]] for name in DIALECT_NAMES))
    yield "## Who speaks which dialect"
    yield WHO_TEXT
    yield "## Methods"
    yield METHODS_TEXT
    head = ("method", "receiver", "how", "gate", "scope", "stability", *DIALECT_NAMES)
    yield table(head, map(method_cells, METHODS.values()))
    yield "## Updates"
    yield UPDATES_TEXT
    yield table(
        ("update", *DIALECT_NAMES),
        ([code(k), *(name_cell(k, update_name, dialect, k) for dialect in DIALECTS)] for k in sorted(UPDATE_KINDS)),
    )
    yield "## Stop reasons and statuses"
    yield VALUES_TEXT
    yield table(
        ("stop reason", *DIALECT_NAMES),
        ([code(reason), *(stop_value(dialect, reason) for dialect in DIALECTS)] for reason in constants(StopReason)),
    )
    yield table(
        ("tool call", *DIALECT_NAMES),
        (
            [code(status), *(status_value(dialect, status) for dialect in DIALECTS)]
            for status in constants(ToolCallStatus)
        ),
    )
    yield "## Errors"
    yield ERRORS_TEXT
    yield table(
        ("kind", *DIALECT_NAMES),
        ([code(kind), *(str(dialect.error_codes[kind]) for dialect in DIALECTS)] for kind in KINDS),
    )
    yield "## Side data"
    yield SIDE_DATA_TEXT
    for dialect in DIALECTS:
        yield f"### {dialect.name}"
        yield from section(dialect)


if __name__ == "__main__":
    print("\n\n".join(page()))
