"""The documents match the code: snippets are files, links resolve, generated pages are up to date."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pyte
import pytest

from tests.source_facts import parse

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PICTURE = ROOT / "docs" / "generate" / "terminal_picture.py"
GENERATORS = sorted(set(ROOT.glob("docs/generate/*.py")) - {PICTURE})

# <!-- file: examples/echo.py --> followed by a fenced block: the block is the file.
SNIPPET = re.compile(r"^<!-- file: (?P<path>\S+) -->\s*\n```(?:python|sh)\n(?P<text>.*?)^```$", re.M | re.S)
MARKER = re.compile(r"^<!-- file: \S+ -->", re.M)
FENCED = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(<?(?P<target>[^)\s>]+)>?\)")
HEADING = re.compile(r"^#{1,6} +(?P<title>.+?) *#*$", re.M)


def prose(text: str) -> str:
    """A document without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCED.sub("", text))


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as forges make them."""
    titles = (heading["title"].lower() for heading in HEADING.finditer(FENCED.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def broken_links(document: Path) -> Iterator[str]:
    """The links of a document that name a file or a heading that does not exist."""
    for link in LINK.finditer(prose(document.read_text(encoding="utf-8"))):
        target = link["target"]
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (document.parent / name) if name else document
        if not file.exists():
            yield f"{target}: no such file"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield f"{target}: no such heading"


def differing_snippets(document: Path) -> Iterator[str]:
    """The marked snippets of a document that differ from their file."""
    text = document.read_text(encoding="utf-8")
    snippets = list(SNIPPET.finditer(text))
    if len(snippets) != len(MARKER.findall(FENCED.sub("", text))):
        yield "a file marker is not followed by a block of python or sh"
    for snippet in snippets:
        file = ROOT / snippet["path"]
        if not file.is_file():
            yield f"{snippet['path']}: no such file"
        elif file.read_text(encoding="utf-8").strip() != snippet["text"].strip():
            yield f"{snippet['path']}: the document shows something else"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(document: Path) -> None:
    assert list(broken_links(document)) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_snippets_equal_their_files(document: Path) -> None:
    assert list(differing_snippets(document)) == []


def test_wrong_links_and_snippets_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title, with: signs\n[a](#a-title-with-signs) [b](gone.md) [c](page.md#gone) [d](https://example.org)\n"
        "`[e](code.md)`\n<!-- file: pyproject.toml -->\n```python\nother = 1\n```\n"
        "<!-- file: gone.py -->\ntext\n"
    )
    assert list(broken_links(page)) == ["gone.md: no such file", "page.md#gone: no such heading"]
    assert list(differing_snippets(page)) == [
        "a file marker is not followed by a block of python or sh",
        "pyproject.toml: the document shows something else",
    ]


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda path: path.stem)
def test_generated_pages_are_up_to_date(generator: Path) -> None:
    run = subprocess.run(
        [sys.executable, generator],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    page = ROOT / "docs" / f"{generator.stem}.md"
    assert page.read_text(encoding="utf-8") == run.stdout, "run `make docs`"


def test_the_picture_shows_the_text_and_the_colors_of_a_screen() -> None:
    picture = runpy.run_path(str(PICTURE))
    screen = pyte.Screen(24, 4)
    pyte.Stream(screen).feed("$ dragoman demo\r\n\x1b[1mEdit\x1b[0m \x1b[32m+ a < b\x1b[0m")
    svg = ElementTree.fromstring(picture["draw"](screen, "demo"))
    texts = {text.text: text.attrib for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert list(texts) == ["demo", "$ dragoman demo", "Edit", "+ a < b"]
    assert texts["Edit"]["font-weight"] == "bold"
    assert texts["+ a < b"]["fill"] == picture["COLORS"]["green"] != texts["Edit"]["fill"]
    assert float(texts["+ a < b"]["x"]) > float(texts["Edit"]["x"])
    assert texts["+ a < b"]["y"] == texts["Edit"]["y"] != texts["$ dragoman demo"]["y"]


TREE_ROW = re.compile(r"^(?P<indent> +)(?P<name>\w+)/ {2,}\S")
TOUR_STEP = re.compile(r"^\d+\. `(?P<file>[\w/]+\.py)`: (?P<functions>`[\w.]+`(?:, `[\w.]+`)*)", re.M)
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "dragoman"


def listed_folders(text: str) -> set[str]:
    """The folders of the tree in ARCHITECTURE.md, as paths below src/dragoman."""
    found: set[str] = set()
    parents: list[str] = []
    for line in text.partition("## The tree")[2].partition("## ")[0].splitlines():
        if row := TREE_ROW.match(line):
            depth = (len(row["indent"]) - 6) // 2
            parents = [*parents[:depth], row["name"]]
            found.add("/".join(parents))
    return found


def functions_of(file: Path) -> set[str]:
    """The qualified names of all functions and methods of a module."""
    tree = parse(file.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    methods = {f"{each.name}.{item.name}" for each in classes for item in each.body if isinstance(item, functions)}
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)} | methods


def tour_steps(text: str) -> list[tuple[str, str]]:
    """File and function of each step of a walk."""
    return [
        (step["file"], function)
        for step in TOUR_STEP.finditer(text)
        for function in re.findall(r"`([\w.]+)`", step["functions"])
    ]


def test_the_tree_lists_every_package() -> None:
    packages = {str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("__init__.py")} - {"."}
    assert listed_folders(ARCHITECTURE) == packages


def test_the_tour_names_functions_that_exist() -> None:
    steps = tour_steps(ARCHITECTURE)
    assert len(steps) > 100
    assert [f"{file}: {name}" for file, name in steps if name not in functions_of(SOURCE / file)] == []


def test_the_walk_of_a_prompt_is_short() -> None:
    walk = set(tour_steps(ARCHITECTURE.partition("### Walk A")[2].partition("### Walk B")[0]))
    assert 30 < len(walk) <= 60
    assert len({file for file, _ in walk}) <= 26
