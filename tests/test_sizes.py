"""Limits of size: modules in a folder, lines of a module, lines of a function. And each test asserts something."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.source_facts import parse
from tests.test_layering import SOURCE, modules

TESTS = Path(__file__).parent

MAX_MODULES = 20
FULLER = {"schema": 22}  # one module for each chapter of the protocol
MAX_LINES = 450
MAX_FUNCTION_LINES = 70

# Functions that fail a test: those of pytest, and helpers whose name says so.
ASSERTING = ("assert_", "check_", "expect")
ASSERTING_CALLS = {"raises", "warns", "fail"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function of a module, also inside classes and functions."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length(node: Function) -> int:
    """The lines of a function, without its decorators."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def asserts_something(test: Function) -> bool:
    """Tell whether a test contains an assertion, or calls a function whose name says that it does."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in ASSERTING_CALLS or name.startswith(ASSERTING):
                return True
    return False


def silent_tests(source: str) -> list[str]:
    """The tests of a module that assert nothing."""
    return [
        test.name for test in functions(parse(source)) if test.name.startswith("test_") and not asserts_something(test)
    ]


def test_no_folder_has_more_modules_than_a_reader_can_survey() -> None:
    folders = [SOURCE, *(path for path in SOURCE.rglob("*") if path.is_dir())]
    full = {
        str(folder.relative_to(SOURCE)): count
        for folder in folders
        if (count := len([path for path in folder.glob("*.py") if path.name != "__init__.py"]))
        > FULLER.get(str(folder.relative_to(SOURCE)), MAX_MODULES)
    }
    assert full == {}


def test_no_module_is_too_long() -> None:
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in modules()}
    assert {module: count for module, count in lengths.items() if count > MAX_LINES} == {}


def test_no_function_is_too_long() -> None:
    long = {
        f"{module}:{node.lineno} {node.name}": length(node)
        for module, path in modules()
        for node in functions(parse(path.read_text(encoding="utf-8")))
        if length(node) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_every_test_asserts_something() -> None:
    silent = [
        f"{path.relative_to(TESTS)}: {name}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for name in silent_tests(path.read_text(encoding="utf-8"))
    ]
    assert silent == []


def test_a_test_without_an_assertion_is_seen() -> None:
    source = """
def test_silent():
    run()

def test_asserts():
    assert run()

def test_expects():
    terminal.expect_text("x")

async def test_raises():
    with pytest.raises(OSError):
        run()
"""
    assert silent_tests(source) == ["test_silent"]
