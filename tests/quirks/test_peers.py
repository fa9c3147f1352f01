"""Every numbered peculiarity of peers.md is shown to be borne by a test that cites it, or says why not yet."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent

NUMBERS = {str(number) for number in range(1, 39)} | {f"P{number}" for number in range(1, 13)}

# Numbers that need what does not exist yet.
NOT_YET = {
    "P7": "Origin checks, authentication and body limits come with the HTTP and WebSocket server",
}

# Numbers that are shown elsewhere, for a test with a clock shows little.
ELSEWHERE = {
    "P9": "bench: updates a second against both official SDKs",
    "P10": "bench: time of the import; tests/transport/test_stdio.py: nothing heavy is imported",
}


def cited() -> set[str]:
    """The numbers that docstrings of tests in this folder cite."""
    found: set[str] = set()
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found.update(re.findall(r"peers\.md (P?\d+)", ast.get_docstring(node) or ""))
    return found


def test_every_peculiarity_has_a_test_that_cites_it() -> None:
    assert cited() == NUMBERS - NOT_YET.keys() - ELSEWHERE.keys()


def test_what_has_no_test_has_a_reason() -> None:
    assert all({**NOT_YET, **ELSEWHERE}.values())
    assert not NOT_YET.keys() & ELSEWHERE.keys()
