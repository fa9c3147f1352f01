"""The pictures of README and docs: which scripts take them, and that the script of the page takes every view."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.web.browser import MakePerson, needs_browser, only_whole
from tests.web.pictures import DOCS, fill_question, looks, take_all, take_view, views

ROOT = Path(__file__).parents[2]

# What the views show.
SESSIONS = ("talk", "question", "running", "empty")


@pytest.mark.item("FA-30")
def test_readme_and_docs_use_the_pictures_that_scripts_take() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    used = {name for page in pages for name in re.findall(r"pictures/([\w-]+\.(?:png|svg))\)", page.read_text())}
    taken = (ROOT / "docs" / "generate" / "terminal_picture.py").read_text()
    for name in used - {"speed.svg"}:  # a chart of the bench
        stem, _, kind = name.partition(".")
        assert (ROOT / "docs" / "pictures" / name).exists()
        assert name in DOCS if kind == "png" else f'"{stem}": Picture(' in taken, name
    assert used >= {"web-question.png", "web-phone.png", "tui.svg", "tui-narrow.svg", "demo.svg"}
    assert {"web-question.png", "demo.svg"} <= set(
        re.findall(r"pictures/([\w-]+\.\w+)\)", (ROOT / "README.md").read_text())
    )


@needs_browser
@pytest.mark.item("FA-30")
def test_a_script_takes_the_picture_of_a_question(tmp_path: Path, person: MakePerson, tokens: dict[str, str]) -> None:
    ann = person(tokens["ann"])
    ids = dict.fromkeys(SESSIONS, fill_question(ann))
    for look, options in (each for each in looks() if each[0] in ("desk-light", "phone-dark")):
        shown = person(tokens["ann"], size=options.pop("viewport"), **options)
        assert take_view(shown, views(ids)["question"], tmp_path / f"{look}.png")
        shown.context.close()
    taken = {path.stem: size_of(path) for path in tmp_path.glob("*.png")}
    assert taken == {"desk-light": (1400, 900), "phone-dark": (390, 844)}
    ann.answer_question("n")
    ann.page.wait_for_selector(".asks", state="detached")


@needs_browser
@only_whole
def test_a_script_takes_pictures_of_every_view(tmp_path: Path, browser: Any) -> None:
    take_all(tmp_path, browser)
    taken = {path.name for path in tmp_path.glob("*.png")}
    wanted = {
        f"{name}-{look}.png"
        for name in (*views(dict.fromkeys(SESSIONS, "")), "sign-in", "owner")
        for look, _ in looks()
    }
    assert wanted - taken == {"share-phone-light.png", "share-phone-dark.png"}  # there it is in the menu


def size_of(path: Path) -> tuple[int, ...]:
    """Return width and height of a PNG."""
    return struct.unpack(">II", path.read_bytes()[16:24])
