"""Names are words of the field: no retired words, no past participles as functions, one spelling.

What a folder, a class or a function is called decides whether a reader finds it. The retired words are those of an
earlier vocabulary; docs/decisions/0016-words-and-packages.md has the glossary.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from dragoman.dialect.dialects import DIALECT_NAMES, PACKAGES
from dragoman.schema.methods import METHODS
from tests.test_citations import texts
from tests.test_layering import imported, modules

ROOT = Path(__file__).parents[1]
OUTSIDE = ("tests", "examples", "docs", "bench", "interop")

# Metaphors of an earlier vocabulary. Each has a replacement in the glossary.
RETIRED = {
    "acquaintance", "afar", "berth", "bygone", "chronicle", "concierge", "desk", "doorman", "errand", "errands",
    "house", "joints", "knock", "ledger", "lending", "librarian", "moorings", "overheard", "parcels", "parrot", "pier",
    "postman", "premises", "roster", "scribe", "shelf", "sieve", "spool", "surroundings", "switchboard", "tally",
    "teller", "visitor", "warden", "whereabouts",
}  # fmt: skip

# Words of a literary tone, for what has a word in the field: send, receive, offer, permission, detect, disconnect.
LITERARY = {
    "abroad", "bears", "borne", "forgiven", "hears", "lends", "lent", "mischief", "nonetheless", "overhears", "speaks",
    "spoken", "unasked", "unheard", "unsaid", "unspoken", "untold", "whence",
}  # fmt: skip

# British spellings; the project uses American ones.
BRITISH = {
    "analyse", "artefact", "behaviour", "catalogue", "centre", "colour", "favour", "favourite", "grey", "honour",
    "initialise", "judgement", "labelled", "modelling", "neighbour", "normalise", "organise", "recognise", "serialise",
    "summarise", "travelled", "whilst",
}  # fmt: skip

# Names that tell neither what goes in nor what comes out.
PARTICIPLES = {
    "agreed", "asked", "borne", "called", "chosen", "done_so", "explained", "heard", "lent", "made", "meant", "met",
    "named", "opened", "said", "settled", "shown", "spoken", "told", "written",
}  # fmt: skip


def names(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Line, kind and name of each class, function and parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.lineno, "class", node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, "function", node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, "parameter", node.arg


def words(name: str) -> set[str]:
    """The words of a name in snake_case or CamelCase."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def parsed() -> list[tuple[str, Path, ast.Module]]:
    """Every module with its tree."""
    return [(module, path, ast.parse(path.read_text(encoding="utf-8"))) for module, path in modules()]


def parsed_outside() -> list[tuple[str, Path, ast.Module]]:
    """Every module outside of the sources, by its path, with its tree."""
    found = [
        path for folder in OUTSIDE for path in sorted((ROOT / folder).rglob("*.py")) if "node_modules" not in path.parts
    ]
    return [(str(path.relative_to(ROOT)), path, ast.parse(path.read_text(encoding="utf-8"))) for path in found]


def test_no_name_uses_a_retired_word() -> None:
    retired = RETIRED | LITERARY
    everything = [*parsed(), *parsed_outside()]
    found = [f"{module}: module" for module, path, _ in everything if words(path.stem) & retired]
    for module, _, tree in everything:
        found += [f"{module}:{line} {kind} {name}" for line, kind, name in names(tree) if words(name) & retired]
    assert found == []


def test_no_function_is_named_by_a_past_participle() -> None:
    found = [
        f"{module}:{line} {name}"
        for module, _, tree in [*parsed(), *parsed_outside()]
        for line, kind, name in names(tree)
        if kind == "function" and name.strip("_") in PARTICIPLES
    ]
    assert found == []


def test_texts_use_american_spelling() -> None:
    forms = {form for word in BRITISH for form in (word, f"{word}s", f"{word}d", f"{word.removesuffix('e')}ing")}
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path, text in texts()
        if path != Path(__file__)
        for word in sorted(set(re.findall(r"[a-z]+", text.lower())) & forms)
    ]
    assert found == []


def test_only_the_dialects_know_their_names() -> None:
    """A property of a dialect is a trait of `Dialect`; nobody else names one."""
    found = [
        f"{module}:{node.lineno} {node.value!r}"
        for module, _, tree in parsed()
        if module.split(".")[1] not in ("dialect", "conformance", "testing")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in DIALECT_NAMES and id(node) not in since(tree)
    ]
    found += [
        f"{module}:{line} imports {name}"
        for module, path, _ in parsed()
        if not module.startswith("dragoman.dialect.")
        for line, name in imported(path.read_text(encoding="utf-8"), module)
        if name.startswith(tuple(f"{package}." for package in PACKAGES.values()))
    ]
    assert found == []


def since(tree: ast.AST) -> set[int]:
    """The values of `since=`: in the table of methods, the version or dialect that a method comes from."""
    return {
        id(keyword.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "since"
    } | {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "since"
    }


def test_only_the_table_has_sets_of_methods() -> None:
    """A property of a method is a column of `schema/methods.py`."""
    known = {name for _, name in METHODS}
    found = [
        f"{module}:{node.lineno}"
        for module, _, tree in parsed()
        if module.split(".")[1] not in ("schema", "dialect", "conformance", "testing", "agents")
        for node in ast.walk(tree)
        if isinstance(node, ast.Set | ast.List | ast.Tuple)
        and len([each for each in node.elts if isinstance(each, ast.Constant) and each.value in known]) > 1
    ]
    assert found == []


def test_only_one_module_peeks_at_frames_of_any_dialect() -> None:
    """`session_id` as a member of raw JSON belongs to some dialects; who does not know the dialect asks peek.py."""
    found = [
        f"{module}:{node.lineno}"
        for module, _, tree in parsed()
        if module.split(".")[1] not in ("dialect", "conformance", "testing")
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.stmt)
        if reads_member(node, "session_id") or field_named(node, "sessionId")
    ]
    assert found == []


def reads_member(node: ast.AST, name: str) -> bool:
    """Tell whether a node is `x["name"]`, `x.get("name")`, or a list with both spellings of a session id."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value == name
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        return bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == name
    if isinstance(node, ast.List | ast.Tuple):
        return {name, "sessionId"} <= {each.value for each in node.elts if isinstance(each, ast.Constant)}
    return False


def field_named(node: ast.AST, name: str) -> bool:
    """Tell whether a node declares a field of this name."""
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name
