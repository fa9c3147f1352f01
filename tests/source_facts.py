"""What the tests of structure ask of a source file, read with ast once for all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

_Nodes = Sequence[ast.AST]


class Facts(NamedTuple):
    """The facts of one file, each with its line."""

    names: list[tuple[int, str, str]]  # kind and name of each class, function and parameter
    imports: list[tuple[int, str]]  # full names; `from a import b` gives a.b
    typing_lines: set[int]  # the lines that only a type checker reads
    texts: list[tuple[int, str]]  # string constants, but not the values of `since`
    groups: list[tuple[int, type, list[str]]]  # the string constants of each literal set, list and tuple
    members: list[tuple[int, str]]  # the names of `x["name"]` and `x.get("name")`
    fields: list[tuple[int, str]]  # the names that are declared with a type


def parse(source: str) -> ast.Module:
    """Return the tree of a source.

    Before Python 3.11.8 and 3.12.2, a parse in another thread at the same time fails this one (bug gh-106905).
    """
    while True:
        try:
            return ast.parse(source)
        except SystemError as error:
            if "recursion depth mismatch" not in str(error):
                raise


@cache
def read_facts(source: str, module: str = "") -> Facts:
    """Return the facts of a module's source."""
    nodes = list(ast.walk(parse(source)))
    return Facts(
        list(_names(nodes)),
        list(_imports(nodes, module.split("."))),
        _typing_lines(nodes),
        list(_texts(nodes)),
        list(_groups(nodes)),
        list(_members(nodes)),
        [(node.lineno, node.target.id) for node in _declarations(nodes) if isinstance(node.target, ast.Name)],
    )


def _names(nodes: _Nodes) -> Iterator[tuple[int, str, str]]:
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield node.lineno, "class", node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, "function", node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, "parameter", node.arg


def _imports(nodes: _Nodes, package: list[str]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def _typing_lines(nodes: _Nodes) -> set[int]:
    return {
        line
        for block in nodes
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for line in range(block.lineno, (block.end_lineno or block.lineno) + 1)
    }


def _texts(nodes: _Nodes) -> Iterator[tuple[int, str]]:
    keywords = [each for node in nodes if isinstance(node, ast.Call) for each in node.keywords]
    since = {id(each.value) for each in keywords if each.arg == "since"}
    since |= {id(node.value) for node in _declarations(nodes) if getattr(node.target, "id", "") == "since"}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in since:
            yield node.lineno, node.value


def _groups(nodes: _Nodes) -> Iterator[tuple[int, type, list[str]]]:
    for node in nodes:
        if isinstance(node, ast.Set | ast.List | ast.Tuple):
            yield node.lineno, type(node), [text for each in node.elts if (text := _text(each)) is not None]


def _members(nodes: _Nodes) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Subscript):
            key: ast.AST | None = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            key = node.args[0] if node.args else None
        else:
            continue
        if key is not None and (name := _text(key)) is not None:
            yield node.lineno, name


def _declarations(nodes: _Nodes) -> Iterator[ast.AnnAssign]:
    return (node for node in nodes if isinstance(node, ast.AnnAssign))


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
