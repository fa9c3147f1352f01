"""Every example client: in memory, as a process before a process, and through two translated dialects.

`but` has what becomes of a feature in a dialect that cannot say it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.examples.run_example import DRAGOMAN, EXAMPLES, MEMORY, STDIO, command_of, perform, run

Lines = list[str]


class Case(NamedTuple):
    """An example client, the agent it meets, and what it prints: lines, or what must be true of them."""

    client: str
    agent: str
    dialects: tuple[str, str]
    expected: Lines | Callable[[Lines, Path], bool]
    arguments: tuple[str, ...] = ()
    but: Mapping[str, Lines] = MappingProxyType({})
    items: tuple[str, ...] = ()


def tells_the_tour(heard: Lines, _: Path) -> bool:
    speakers = [line.partition(":")[0] for line in heard if line.startswith(("user:", "thought:", "agent:"))]
    is_in_order = heard[0] == "user: /tour" and speakers[:2] == ["user", "thought"] and speakers[-1] == "agent"
    return is_in_order and all(any(line.startswith(mark) for line in heard) for mark in ("[completed] ", "- "))


def wrote_only_notes(_: Lines, folder: Path) -> bool:
    return (folder / "notes.md").read_text().strip() == "remember" and not (folder / "other.md").exists()


def poem(*marked: int) -> Lines:
    return ["poem.txt, line 2"] + [
        f"{'>' if number in marked else ' '} {number} {line}"
        for number, line in enumerate(["one", "two", "three", "four"], start=1)
    ]


LATER = "The agent limits the rate of requests; the next attempt has to wait: you asked for the error rate_limited"
DENIED = "This was not allowed: you asked for the error permission_denied"
PLANS = [
    "plans: read the question (pending), think about it (pending),",
    "plans: read the question (in_progress), think about it (pending),",
    "plans: read the question (completed), think about it (pending),",
]
BETWEEN = (*DRAGOMAN, "translate", "--client-dialect", "banjo", "--")
LOUD = (sys.executable, str(EXAMPLES.parents[1] / "examples" / "loud.py"))
SIGNED_IN = ["Signing in: In a terminal", "Welcome! You are signed in.", "At your service."]

CASES = [
    Case("transcript", "everything", ("draft", "crow"), tells_the_tour, arguments=("/tour",)),
    Case("listen", "planner", ("draft", "2025.1"),
         lambda heard, _: heard[:3] == PLANS and heard[-2:] == ["says: All 3 steps are done.", "ends: end_turn"]),
    Case("stop", "tidy", ("draft", "crow"), ["cancelled", "I put the shovel away."], items=("001-13",)),
    Case("permit", "careful", ("draft", "crow"), [
        "Run echo harmless: allow_once", "It ended with 0.", "Run touch dangerous: reject_once", "Then I leave it."]),
    Case("history", "librarian", ("banjo", "draft"), [
        "loaded: one 1 pages in 1 folders; instructions: none",
        "resumed: 0 messages; 2 pages in 1 folders; instructions: none",
        "forked: 3 pages in 1 folders; instructions: none",
        "left: [True]"], but={"draft": ["capability_unsupported"]}),
    Case("virtual", "scribe", ("draft", "2025.1"), ["TWO WORDS: 2 words (yours)"]),
    Case("many", "everything", ("draft", "crow"), [*(f"from session {number}" for number in range(4)), "4 sessions"],
         items=("004-09",)),
    Case("policy", "everything", ("draft", "banjo"), wrote_only_notes),
    Case("follow", "guide", ("banjo", "crow"), poem(2), but={"crow": []}, items=("004-37",)),
    Case("recover", "everything", ("draft", "crow"), [LATER, LATER, LATER, "gave up: rate_limited"],
         arguments=("/error rate_limited",), items=("004-60",)),
    Case("recover", "everything", ("draft", "crow"), [DENIED, DENIED, "gave up: permission_denied"],
         arguments=("/error permission_denied",), items=("004-60",)),
    Case("patience", "everything", ("draft", "crow"),
         ["True: the agent sent no update for 0.5 s", "still there"], items=("004-62",)),
    Case("elicit", "curious", ("banjo", "draft"), [
        "The agent asks: Who are you?",
        "The agent wants you to visit https://guests.example.org/sign?from=curious",
        "Hello, Ada. Another time, then."], but={"draft": ["capability_unsupported"]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "way"),
    [
        pytest.param(
            case,
            way,
            id="-".join((case.client, *(word.replace("/", "") for word in case.arguments), way)),
            marks=[pytest.mark.item(*case.items)] if case.items and way not in case.but else [],
        )
        for case in CASES
        for way in (MEMORY, STDIO, *case.dialects)
    ],
)
def test_an_example_does_what_it_shows_in_every_way(case: Case, way: str, tmp_path: Path) -> None:
    (tmp_path / "poem.txt").write_text("one\ntwo\nthree\nfour\n")
    heard = perform(case.client, case.agent, way, tmp_path, case.arguments)
    expected: Any = case.but.get(way, case.expected)
    assert expected(heard, tmp_path) if callable(expected) else heard == expected, heard


@pytest.mark.item("004-37")
def test_the_whole_range_is_marked_where_the_agents_dialect_has_a_word_for_its_end(tmp_path: Path) -> None:
    (tmp_path / "poem.txt").write_text("one\ntwo\nthree\nfour\n")
    script = tmp_path / "guide.py"
    text = (EXAMPLES / "guide.py").read_text().replace('version="0.1"', 'version="0.1", dialect="draft"')
    script.write_text(text)
    client = command_of("follow", STDIO)
    assert run(*client, client[0], str(script), cwd=tmp_path) == poem(2, 3)


@pytest.mark.parametrize("between", [(), BETWEEN, (*BETWEEN, *BETWEEN), LOUD], ids=["stdio", "banjo", "twice", "proxy"])
def test_one_signs_in_in_the_terminal_and_goes_on(between: tuple[str, ...], tmp_path: Path) -> None:
    """A process is needed that can be started again: there is no such thing in memory, nor in the other dialects."""
    assert run(*command_of("signin", STDIO), *between, *command_of("guarded", STDIO), cwd=tmp_path) == SIGNED_IN


def test_every_example_client_is_performed_here() -> None:
    """Some need more than a way: a person who types, or a machine that has what it takes; they have their own tests."""
    clients = {path.stem for path in EXAMPLES.glob("*.py") if "agent.run()" not in path.read_text()}
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    own = {name for name in clients if f"{name}.py" in tests or f'command_of("{name}"' in tests}
    assert clients - {case.client for case in CASES} - own == set()


def test_the_list_of_examples_has_them_all() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in sorted(EXAMPLES.glob("*.py")) if f"]({path.name})" not in listed] == []
