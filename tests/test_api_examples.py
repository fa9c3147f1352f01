"""The API pages document every public name, and their examples run."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

PAGES = Path(__file__).parents[1] / "docs" / "api"
SECTION = re.compile(r"^## (?P<title>`[^\n]+`)$(?P<body>.*?)(?=^## |\Z)", re.M | re.S)
EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```$", re.M | re.S)
DIRECTIVE = re.compile(r"^<!-- api: (?P<name>[\w.]+) -->$", re.M)

# No example waits for anything but a process of ours; a hang ends here. Seconds.
EXAMPLE_LIMIT = 60


class Section(NamedTuple):
    """One heading of a page: the names that it documents, and the code of its example."""

    page: str
    names: tuple[str, ...]
    code: str
    documented: tuple[str, ...]


def sections() -> Iterator[Section]:
    """Yield every section of every page."""
    for page in sorted(PAGES.glob("*.md")):
        for found in SECTION.finditer(page.read_text(encoding="utf-8")):
            names = tuple(re.findall(r"`(\w+)`", found["title"]))
            examples = EXAMPLE.findall(found["body"])
            assert len(examples) == 1, f"{page.name}: {names} has {len(examples)} examples, not one"
            yield Section(page.stem, names, examples[0], tuple(DIRECTIVE.findall(found["body"])))


SECTIONS = list(sections())


def compiled(section: Section) -> CodeType:
    """Compile an example; it may await at its top level."""
    name = f"docs/api/{section.page}.md: {section.names[0]}"
    code: CodeType = compile(section.code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


@pytest.mark.parametrize("module", ["dragoman", "dragoman.testing"])
def test_every_public_name_has_a_section_and_a_place_in_the_reference(module: str) -> None:
    public = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
    documented = [name for section in SECTIONS for name in section.documented if name.rpartition(".")[0] == module]
    assert sorted(documented) == sorted(public)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: f"{section.page}-{section.names[0]}")
def test_an_example_runs_and_uses_the_names_of_its_heading(
    section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [name for name in section.names if not re.search(rf"\b{name}\b", section.code)] == []
    assert {name.rpartition(".")[2] for name in section.documented} == set(section.names)
    monkeypatch.chdir(tmp_path)
    code = compiled(section)
    scope: dict[str, object] = {"__name__": "__example__"}
    if code.co_flags & inspect.CO_COROUTINE:

        async def run() -> None:
            async with asyncio.timeout(EXAMPLE_LIMIT):
                await eval(code, scope)

        asyncio.run(run())
    else:
        exec(code, scope)
