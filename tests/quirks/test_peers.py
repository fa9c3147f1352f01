"""Every peculiarity of docs/protocol/peers.md is shown to be borne by a test that cites it, or says why not yet."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.source_facts import parse

HERE = Path(__file__).parent

PAGE = Path(__file__).parents[2] / "docs" / "protocol" / "peers.md"

# The parts of the page whose every heading needs a test here; the others say where their reports are tested.
PARTS = ("JSON-RPC level", "Ordering", "Fields", "Files and terminals", "Python SDK")

# Headings that are shown elsewhere, for a test with a clock shows little.
ELSEWHERE = {
    "sdk-origin": "tests/transport/remote/server: Origin checks, authentication and body limits",
    "sdk-throughput": "bench: updates a second against both official SDKs",
    "sdk-import-time": "bench: time of the import; tests/transport/test_stdio.py: nothing heavy is imported",
}


def headings() -> set[str]:
    """The headings of those parts of the page."""
    parts = re.split(r"(?m)^## (.+)$", PAGE.read_text(encoding="utf-8"))
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {heading for part in PARTS for heading in re.findall(r"(?m)^### (\S+)$", sections[part])}


def cited() -> set[str]:
    """The headings that docstrings of tests in this folder cite."""
    found: set[str] = set()
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found.update(re.findall(r"peers\.md#([\w-]+)", ast.get_docstring(node) or ""))
    return found


def test_every_quirk_has_a_test_that_cites_it() -> None:
    assert headings() - ELSEWHERE.keys() - cited() == set()
