"""The table of items is complete, its page is correct, and every item that a test names exists."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import page
from tests.source_facts import parse

TESTS = page.ROOT / "tests"

# How many items each source document has; ids count from 1 without gaps.
COUNTS = {"000": 23, "001": 13, "002": 12, "003": 26, "004": 81, "OFF": 7, "RG": 25}

# The items of bridges, chains and teams.
BRIDGES = range(1, 31)

# The items of the web page and of the full-screen terminal.
FACES = range(1, 31)

CHAPTERS = (
    page.Chapter("9", "Nine", (page.Item("9-01", "W", "A first_thing | here."), page.Item("9-02", "B", "A second."))),
)


def named_ids(source: str) -> Iterator[str]:
    """Return the literal ids of every `mark.item(...)` in a module."""
    for node in ast.walk(parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="item"), args=args):
                yield from (arg.value for arg in args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def test_the_table_has_every_item_of_every_document_once() -> None:
    expected = [f"{seed}-{number:02}" for seed, count in COUNTS.items() for number in range(1, count + 1)]
    expected += [f"BR-{number:02}" for number in BRIDGES]
    expected += [f"V2-{number:02}" for number in range(1, 31)]
    expected += [f"FL-{number:02}" for number in range(1, 31)]
    expected += [f"FA-{number:02}" for number in FACES]
    assert page.item_ids(page.read_table()) == expected
    assert len(expected) == 187 + len(BRIDGES) + 60 + len(FACES)


def test_every_item_has_a_kind_and_a_sentence_of_its_own() -> None:
    items = [item for chapter in page.read_table() for item in chapter.items]
    assert {item.kind for item in items} == {"W", "B", "W/B"}
    assert [item.id for item in items if not item.says.endswith(".")] == []
    assert [says for says, count in Counter(item.says for item in items).items() if count > 1] == []


def test_every_item_that_a_test_names_is_in_the_table() -> None:
    known = set(page.item_ids(page.read_table()))
    unknown = {
        str(path.relative_to(TESTS)): wrong
        for path in sorted(TESTS.rglob("*.py"))
        if (wrong := sorted(set(named_ids(path.read_text(encoding="utf-8"))) - known))
    }
    assert unknown == {}


def test_marks_are_found_on_functions_and_on_parameters() -> None:
    source = """
@pytest.mark.item("1-01", "1-02")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.item("1-03"))])
def test_a(x): ...
"""
    assert sorted(named_ids(source)) == ["1-01", "1-02", "1-03"]


def test_an_item_is_listed_only_with_a_test() -> None:
    text = page.render(CHAPTERS, {"9-02": {"tests/b.py::test_b[two]", "tests/b.py::test_b[one]", "tests/a.py::test_a"}})
    assert "**1 of 2** items have a test that passed" in text
    assert "| Nine | 1 of 2 |" in text
    assert "| 9-01 | W | A first\\_thing \\| here. | not yet |  |" in text
    assert "| 9-02 | B | A second. | passed | `tests/a.py::test_a`<br>`tests/b.py::test_b` |" in text


def test_the_page_does_not_depend_on_the_order_of_results() -> None:
    names = [f"tests/x.py::test_{letter}" for letter in "abcdef"]
    assert page.render(CHAPTERS, {"9-01": names}) == page.render(CHAPTERS, {"9-01": names[::-1]})


RUN = """
import pytest
@pytest.mark.item("000-01")
def test_passes(): pass
@pytest.mark.item("000-02")
def test_is_skipped(): pytest.skip("no")
@pytest.mark.item("000-03")
@pytest.mark.xfail
def test_may_fail(): pass
@pytest.mark.item({unknown!r})
def test_fails_on_demand(): assert {green}
"""


@pytest.mark.parametrize(
    ("arguments", "green", "unknown", "expected"),
    [
        pytest.param([], True, "000-04", {"000-01", "000-04"}, id="green"),
        pytest.param(["-n", "2"], True, "000-04", {"000-01", "000-04"}, id="green with workers"),
        pytest.param([], False, "000-04", None, id="red"),
        pytest.param(["-k", "passes"], True, "000-04", None, id="narrowed by name"),
        pytest.param(["tests/test_run.py"], True, "000-04", None, id="narrowed by path"),
        pytest.param([], True, "000-99", None, id="unknown item"),
    ],
)
def test_the_page_is_written_after_a_full_green_run_from_what_passed(
    tmp_path: Path, arguments: list[str], green: bool, unknown: str, expected: set[str] | None
) -> None:
    copy_of_plugin(tmp_path)
    (tmp_path / "tests" / "test_run.py").write_text(RUN.format(green=green, unknown=unknown))
    written = tmp_path / "docs" / "acceptance.md"
    written.write_text("as it was")
    run_pytest(tmp_path, "--acceptance", *arguments)
    if expected is None:
        assert written.read_text() == "as it was"
    else:
        rows = [row.split(" | ") for row in written.read_text().splitlines() if row.startswith(("| 0", "| OFF"))]
        assert {row[0].removeprefix("| ") for row in rows if row[3] == "passed"} == expected


def copy_of_plugin(root: Path) -> None:
    """Create a project with only our plug-in and our table."""
    (root / "pyproject.toml").write_text((page.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for name in ("tests/conftest.py", "tests/acceptance/page.py", "docs/acceptance_items.toml"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page.ROOT / name, root / name)


def run_pytest(root: Path, *arguments: str) -> None:
    """Run tests without the environment of the outer run."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV_"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    subprocess.run(command, cwd=root, env=env, timeout=120, capture_output=True, check=False)
