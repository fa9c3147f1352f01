"""Every example client: in memory, as a process, and through two translated dialects.

`but` has the result in a dialect that does not support the feature.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.examples.run_example import DRAGOMAN, EXAMPLES, MEMORY, STDIO, command_of, run, run_client

Lines = list[str]


class Case(NamedTuple):
    """An example client, its agent, and what it prints: lines, or a check of them."""

    client: str
    agent: str
    dialects: tuple[str, str]
    expected: Lines | Callable[[Lines, Path], bool]
    arguments: tuple[str, ...] = ()
    but: Mapping[str, Lines] = MappingProxyType({})
    items: tuple[str, ...] = ()


def prints_the_tour(output: Lines, _: Path) -> bool:
    speakers = [line.partition(":")[0] for line in output if line.startswith(("user:", "thought:", "agent:"))]
    is_in_order = output[0] == "user: /tour" and speakers[:2] == ["user", "thought"] and speakers[-1] == "agent"
    return is_in_order and all(any(line.startswith(mark) for line in output) for mark in ("[completed] ", "- "))


def wrote_only_notes(_: Lines, folder: Path) -> bool:
    return (folder / "notes.md").read_text().strip() == "remember" and not (folder / "other.md").exists()


def poem(*marked: int) -> Lines:
    return ["poem.txt, line 2"] + [
        f"{'>' if number in marked else ' '} {number} {line}"
        for number, line in enumerate(["one", "two", "three", "four"], start=1)
    ]


RATE_LIMITED = (
    "The agent limits the rate of requests; the next attempt has to wait: you asked for the error rate_limited"
)
DENIED = "This was not allowed: you asked for the error permission_denied"
PLANS = [
    "plan: read the question (pending), think about it (pending),",
    "plan: read the question (in_progress), think about it (pending),",
    "plan: read the question (completed), think about it (pending),",
]
TRANSLATOR = (*DRAGOMAN, "translate", "--client-dialect", "banjo", "--")
PROXY = (sys.executable, str(EXAMPLES.parents[1] / "examples" / "uppercase.py"))
LOGGED_IN = ["Logging in: In a terminal", "You are logged in.", "Ready."]

CASES = [
    Case("transcript", "everything", ("draft", "crow"), prints_the_tour, arguments=("/tour",)),
    Case(
        "updates",
        "plan",
        ("draft", "2025.1"),
        lambda output, _: (
            output[:3] == PLANS and output[-2:] == ["text: All 3 steps are done.", "stop reason: end_turn"]
        ),
    ),
    Case(
        "cancel_turn",
        "cancellation",
        ("draft", "crow"),
        ["cancelled", "I removed the temporary files."],
        items=("001-13",),
    ),
    Case(
        "permission_function",
        "ask_permission",
        ("draft", "crow"),
        ["Run echo harmless: allow_once", "It ended with 0.", "Run touch dangerous: reject_once", "Not allowed."],
    ),
    Case(
        "manage_sessions",
        "session_hooks",
        ("banjo", "draft"),
        [
            "loaded: one 1 pages in 1 folders; instructions: none",
            "resumed: 0 messages; 2 pages in 1 folders; instructions: none",
            "forked: 3 pages in 1 folders; instructions: none",
            "left: [True]",
        ],
        but={"draft": ["capability_unsupported"]},
    ),
    Case("virtual_files", "files_and_terminals", ("draft", "2025.1"), ["TWO WORDS: 2 words (yours)"]),
    Case(
        "several_sessions",
        "everything",
        ("draft", "crow"),
        [*(f"from session {number}" for number in range(4)), "4 sessions"],
        items=("004-09",),
    ),
    Case("permission_policy", "everything", ("draft", "banjo"), wrote_only_notes),
    Case("follow_locations", "locations", ("banjo", "crow"), poem(2), but={"crow": []}, items=("004-37",)),
    Case(
        "recovery",
        "everything",
        ("draft", "crow"),
        [RATE_LIMITED, RATE_LIMITED, RATE_LIMITED, "gave up: rate_limited"],
        arguments=("/error rate_limited",),
        items=("004-60",),
    ),
    Case(
        "recovery",
        "everything",
        ("draft", "crow"),
        [DENIED, DENIED, "gave up: permission_denied"],
        arguments=("/error permission_denied",),
        items=("004-60",),
    ),
    Case(
        "timeouts",
        "everything",
        ("draft", "crow"),
        ["True: the agent sent no update for 0.5 s", "still there"],
        items=("004-62",),
    ),
    Case(
        "answer_forms",
        "forms",
        ("banjo", "draft"),
        [
            "The agent asks: Who are you?",
            "The agent wants you to visit https://accounts.example.org/confirm",
            "Hello, Ada. Not confirmed.",
        ],
        but={"draft": ["capability_unsupported"]},
    ),
]


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
def test_an_example_client_prints_the_same_in_every_way(case: Case, way: str, tmp_path: Path) -> None:
    (tmp_path / "poem.txt").write_text("one\ntwo\nthree\nfour\n")
    output = run_client(case.client, case.agent, way, tmp_path, case.arguments)
    expected: Any = case.but.get(way, case.expected)
    assert expected(output, tmp_path) if callable(expected) else output == expected, output


@pytest.mark.item("004-37")
def test_the_whole_range_is_marked_if_the_dialect_has_ranges(tmp_path: Path) -> None:
    (tmp_path / "poem.txt").write_text("one\ntwo\nthree\nfour\n")
    script = tmp_path / "locations.py"
    text = (EXAMPLES / "locations.py").read_text().replace('version="0.1"', 'version="0.1", dialect="draft"')
    script.write_text(text)
    client = command_of("follow_locations", STDIO)
    assert run(*client, client[0], str(script), cwd=tmp_path) == poem(2, 3)


@pytest.mark.parametrize(
    "proxies", [(), TRANSLATOR, (*TRANSLATOR, *TRANSLATOR), PROXY], ids=["stdio", "banjo", "twice", "proxy"]
)
def test_a_terminal_login_restarts_the_agent_and_the_session_opens(proxies: tuple[str, ...], tmp_path: Path) -> None:
    """Only a process can be restarted, and only these dialects have this login."""
    assert (
        run(*command_of("terminal_login", STDIO), *proxies, *command_of("terminal_login_agent", STDIO), cwd=tmp_path)
        == LOGGED_IN
    )


def test_every_example_client_is_tested() -> None:
    """Some have their own tests, because they need input or features of the machine."""
    clients = {path.stem for path in EXAMPLES.glob("*.py") if "agent.run()" not in path.read_text()}
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    own = {name for name in clients if f"{name}.py" in tests or f'command_of("{name}"' in tests}
    assert clients - {case.client for case in CASES} - own == set()


def test_the_example_of_both_sides_joins_a_prompt_to_a_turn() -> None:
    command = [sys.executable, str(EXAMPLES / "steering.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "Now only in src/.\n"


def test_the_list_of_examples_is_complete() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in sorted(EXAMPLES.glob("*.py")) if f"]({path.name})" not in listed] == []
