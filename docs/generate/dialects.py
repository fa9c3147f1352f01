"""Prints docs/dialects.md: what each dialect can say, found out by asking the code that says it.

Every cell comes from a table or from lowering a message; the examples are those of tests/data/dialects. Only the prose
is written here. `make docs` runs it, and a test compares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dragoman.dialect.dialects import DIALECT_NAMES, Dialect, load_dialect
from dragoman.dialect.reshape import INFERRED_KEY, SIDE_DATA_KEY, json_side_data
from dragoman.dialect.v1.tables import UPDATE_KINDS
from dragoman.errors import KINDS, ProtocolError, Unsayable
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.prompt import StopReason
from dragoman.schema.side import Side
from dragoman.schema.toolcall import ToolCallStatus

EXAMPLES = Path(__file__).parents[2] / "tests" / "data" / "dialects"
DIALECTS = [load_dialect(name) for name in DIALECT_NAMES]

UNSAID = "–"
# The dialect's nearest word; the true one travels beside it.
NEAREST = "*"

ABOUT = {
    "v1": "The official protocol as it is today, in camelCase. The vocabulary is v1: nearly all is said as it stands.",
    "banjo": "v1 with a list of models, `session/set_model`, `unstable_resumeSession`, the stop reason `auth_required` "
    "and plan entries that have an id and no priority. v1 reads all of that too, so detection never says banjo.",
    "2025.1": "snake_case throughout. The client chooses the session ids, the working directory belongs to the "
    "connection, files and terminals belong to no session, and nobody can be asked for leave.",
    "crow": 'A mixture of both cases. Updates are told apart by `"@type"`, a question is an update that is answered by '
    "`permission_response`, and `cancel` is a request.",
    "draft": "camelCase with other words: `workingDirectory`, updates of `type` and `data`, questions about an "
    "`operation` on a `resource`, terminal output that is pushed, and an error number for almost every kind.",
}

OPENING = """\
# The dialects

<!-- Written by docs/generate/dialects.py. Change that or the tables it reads, then run `make docs`. -->

The Agent Client Protocol is in circulation in five spellings. Dragoman reads each of them into one vocabulary, which is
official v1, and writes it back in any other. This page is made from the code's own tables: it says what each dialect
has words for, and what becomes of the rest. How the two meet is in [ARCHITECTURE.md](../ARCHITECTURE.md).

What a dialect cannot say is never silently dropped. Members travel under `_meta.dragoman` of the object they belong to.
A request that cannot be said is emulated where that is possible, else it is refused by name (`capability_unsupported`);
a notification that cannot be said is left out, and reported once."""

METHODS_TEXT = f"""\
One row of `schema/methods.py` each. The *receiver* is the side that is called. The *gate* is the capability without
which the method is not used. In the columns of the dialects, "yes" means under the same name; `{UNSAID}` means that the
dialect has no words for it. Whether a peer of a dialect that can say a method also serves it is for its capabilities
to tell. Names that begin with `_` or `$/` belong to nobody and pass through every dialect as they are."""

UPDATES_TEXT = """\
What stands in `update.sessionUpdate` in v1 and banjo, in `update["@type"]` in crow, and in `type` in 2025.1 and the
draft. Kinds that the vocabulary does not know pass through every dialect under their own name."""

VALUES_TEXT = """\
A star marks the nearest word of a dialect that has none of its own; the true value stands beside it, in
`_meta.dragoman`. `error: KIND` means that the prompt is answered with an error of that kind."""

ERRORS_TEXT = """\
Inside there are kinds, and each dialect has a column of numbers. Every error that Dragoman writes has its kind in
`data.kind`. Reading goes by a known `data.kind`, else by the first kind of the column that has the number."""

BESIDE_TEXT = """\
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


# --- what can be said -------------------------------------------------------------------------------------------


def method_cells(method: Method) -> Iterator[str]:
    """A row of the method table."""
    yield code(method.name)
    yield method.side.value
    yield "either" if method.either else "request" if method.request else "notification"
    yield code(method.gate)
    yield method.scope
    yield method.stability if method.stability == "stable" else f"{method.stability}, {method.since}"
    yield from (said(method.name, method_name, spoken, method) for spoken in DIALECTS)


def said(name: str, lower: Callable[..., str], *arguments: object) -> str:
    """How something is said: yes, by another name, or not at all."""
    try:
        wire = lower(*arguments)
    except Unsayable:
        return UNSAID
    return "yes" if wire == name else code(wire)


def method_name(spoken: Dialect, method: Method) -> str:
    """What a dialect calls a method."""
    return spoken.lower_call(method.side, method.name, {})[0]


def update_name(spoken: Dialect, kind: str) -> str:
    """What a dialect calls a kind of update."""
    params = {"sessionId": "s", "update": {"sessionUpdate": kind}}
    wire = spoken.lower_call(Side.CLIENT, "session/update", params)[1]
    update = wire.get("update", {})
    return str(wire.get("type") or update.get("@type") or update["sessionUpdate"])


def status_word(spoken: Dialect, status: str) -> str:
    """A dialect's word for the status of a tool call."""
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": status}
    wire = spoken.lower_call(Side.CLIENT, "session/update", {"sessionId": "s", "update": update})[1]
    told = wire.get("data") or wire["update"]
    return word(told["status"], told)


def stop_word(spoken: Dialect, reason: str) -> str:
    """A dialect's word for the end of a turn."""
    try:
        wire = spoken.lower_result(Side.AGENT, "session/prompt", {"stopReason": reason})
    except ProtocolError as error:
        return f"error: {code(error.kind)}"
    return word(wire.get("stopReason") or wire["stop_reason"], wire)


def word(value: str, where: Mapping[str, Any]) -> str:
    """A word, marked when it only stands in for another."""
    return code(value) + (NEAREST if json_side_data(where) else "")


# --- what travels beside ----------------------------------------------------------------------------------------


def examples(name: str) -> list[dict[str, Any]]:
    """Hand-made examples: of a dialect, or the canonical ones."""
    loaded: list[dict[str, Any]] = json.loads((EXAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def beside(value: Any, path: str = "") -> Iterator[str]:
    """The paths of everything that stands under `_meta.dragoman`."""
    if isinstance(value, list):
        for item in value:
            yield from beside(item, f"{path}[]")
    if isinstance(value, dict):
        where = f"{path}." if path else ""
        yield from (f"{where}{name}" for name in json_side_data(value) if name != INFERRED_KEY)
        for name, item in value.items():
            if name != "_meta":
                yield from beside(item, f"{where}{name}")


def known_beyond(spoken: Dialect) -> dict[str, set[str]]:
    """What peers of a dialect say that v1 has no place for, by message."""
    found: dict[str, set[str]] = {}
    for case in examples(spoken.name):
        side, wire = Side(case["side"]), case["wire"]
        try:
            if case["kind"] == "call":
                method, heard = spoken.lift_call(side, wire["method"], wire.get("params"))
            else:
                method = case["vocabulary"]["method"]
                heard = spoken.lift_result(side, method, wire.get("result"))
        except ProtocolError:
            continue  # a result that means an error
        found.setdefault(message(case["kind"], method, heard), set()).update(beside(heard))
    return found


def left_unsaid(spoken: Dialect) -> dict[str, set[str]]:
    """What v1 says that a dialect has no place for, by message."""
    found: dict[str, set[str]] = {}
    for case in examples("canonical"):
        side, method = Side(case["side"]), case["vocabulary"]["method"]
        try:
            if case["kind"] == "call":
                told = case["vocabulary"].get("params")
                wire = spoken.lower_call(side, method, told)[1]
            else:
                told = case["vocabulary"].get("result")
                wire = spoken.lower_result(side, method, told)
        except ProtocolError:
            continue  # refused as a whole: the tables above say so
        found.setdefault(message(case["kind"], method, told), set()).update(beside(wire))
    return found


def message(kind: str, method: str, told: Any) -> str:
    """How a message is named in the tables: its method, and for updates their kind."""
    update = told.get("update") if isinstance(told, dict) else None
    which = update.get("sessionUpdate") if isinstance(update, dict) else None
    return f"{code(method)} {which or ''}".rstrip() if kind == "call" else f"{code(method)} result"


def listed(found: Mapping[str, set[str]]) -> list[list[str]]:
    """Rows of messages and the members found in them; messages without any are left out."""
    return [[name, ", ".join(map(code, sorted(paths)))] for name, paths in sorted(found.items()) if paths]


def section(spoken: Dialect) -> Iterator[str]:
    """Everything about the side data of one dialect."""
    for title, found in (
        (f"Said by {spoken.name} peers, kept as `_meta.{SIDE_DATA_KEY}` in the vocabulary", known_beyond(spoken)),
        (f"Said by others, told to {spoken.name} peers as `_meta.{SIDE_DATA_KEY}`", left_unsaid(spoken)),
    ):
        rows = listed(found)
        yield f"{title}:" + ("\n\n" + table(("message", "members"), rows) if rows else " nothing.")


def page() -> Iterator[str]:
    """The page, paragraph by paragraph."""
    yield OPENING
    yield table(("dialect", "what it is"), ([code(name), ABOUT[name]] for name in DIALECT_NAMES))
    yield "## Methods"
    yield METHODS_TEXT
    head = ("method", "receiver", "how", "gate", "scope", "stability", *DIALECT_NAMES)
    yield table(head, map(method_cells, METHODS.values()))
    yield "## Updates"
    yield UPDATES_TEXT
    yield table(
        ("update", *DIALECT_NAMES),
        ([code(k), *(said(k, update_name, spoken, k) for spoken in DIALECTS)] for k in sorted(UPDATE_KINDS)),
    )
    yield "## Stop reasons and statuses"
    yield VALUES_TEXT
    yield table(
        ("stop reason", *DIALECT_NAMES),
        ([code(reason), *(stop_word(spoken, reason) for spoken in DIALECTS)] for reason in constants(StopReason)),
    )
    yield table(
        ("tool call", *DIALECT_NAMES),
        ([code(status), *(status_word(spoken, status) for spoken in DIALECTS)] for status in constants(ToolCallStatus)),
    )
    yield "## Errors"
    yield ERRORS_TEXT
    yield table(
        ("kind", *DIALECT_NAMES),
        ([code(kind), *(str(spoken.error_codes[kind]) for spoken in DIALECTS)] for kind in KINDS),
    )
    yield "## What travels beside"
    yield BESIDE_TEXT
    for spoken in DIALECTS:
        yield f"### {spoken.name}"
        yield from section(spoken)


if __name__ == "__main__":
    print("\n\n".join(page()))
