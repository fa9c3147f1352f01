"""Names are words of the field: no retired words, no past participles as functions, one spelling.

What a folder, a class or a function is called decides whether a reader finds it. The retired words are those of an
earlier vocabulary; docs/decisions/0016-words-and-packages.md has the glossary.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from dragoman.dialect.dialects import DIALECT_NAMES, PACKAGES
from dragoman.schema.methods import METHODS
from tests.source_facts import Facts, read_facts
from tests.test_citations import texts
from tests.test_layering import modules

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


def words(name: str) -> set[str]:
    """The words of a name in snake_case or CamelCase."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def sources() -> list[tuple[str, Path, Facts]]:
    """Every module with what is in it."""
    return [(module, path, read_facts(path.read_text(encoding="utf-8"), module)) for module, path in modules()]


def sources_outside() -> list[tuple[str, Path, Facts]]:
    """Every module outside of the sources, by its path, with what is in it."""
    found = [
        path for folder in OUTSIDE for path in sorted((ROOT / folder).rglob("*.py")) if "node_modules" not in path.parts
    ]
    return [(str(path.relative_to(ROOT)), path, read_facts(path.read_text(encoding="utf-8"))) for path in found]


def test_no_name_uses_a_retired_word() -> None:
    retired = RETIRED | LITERARY
    everything = [*sources(), *sources_outside()]
    found = [f"{module}: module" for module, path, _ in everything if words(path.stem) & retired]
    for module, _, facts in everything:
        found += [f"{module}:{line} {kind} {name}" for line, kind, name in facts.names if words(name) & retired]
    assert found == []


def test_no_function_is_named_by_a_past_participle() -> None:
    found = [
        f"{module}:{line} {name}"
        for module, _, facts in [*sources(), *sources_outside()]
        for line, kind, name in facts.names
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
        f"{module}:{line} {text!r}"
        for module, _, facts in sources()
        if module.split(".")[1] not in ("dialect", "conformance", "testing")
        for line, text in facts.texts
        if text in DIALECT_NAMES
    ]
    found += [
        f"{module}:{line} imports {name}"
        for module, _, facts in sources()
        if not module.startswith("dragoman.dialect.")
        for line, name in facts.imports
        if name.startswith(tuple(f"{package}." for package in PACKAGES.values()))
    ]
    assert found == []


def test_only_the_table_has_sets_of_methods() -> None:
    """A property of a method is a column of `schema/methods.py`."""
    known = {name for _, name in METHODS}
    found = [
        f"{module}:{line}"
        for module, _, facts in sources()
        if module.split(".")[1] not in ("schema", "dialect", "conformance", "testing", "agents")
        for line, _, group in facts.groups
        if len([text for text in group if text in known]) > 1
    ]
    assert found == []


def test_only_one_module_peeks_at_frames_of_any_dialect() -> None:
    """`session_id` as a member of raw JSON belongs to some dialects; who does not know the dialect asks peek.py."""
    found = []
    for module, _, facts in sources():
        if module.split(".")[1] in ("dialect", "conformance", "testing"):
            continue
        lines = [line for line, name in facts.members if name == "session_id"]
        lines += [
            line
            for line, kind, group in facts.groups
            if kind is not ast.Set and {"session_id", "sessionId"} <= set(group)
        ]
        lines += [line for line, name in facts.fields if name == "sessionId"]
        found += [f"{module}:{line}" for line in lines]
    assert found == []
