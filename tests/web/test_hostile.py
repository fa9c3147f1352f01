"""Texts and bytes from peers that want to be more than that: shown as text, and nothing happens."""

from __future__ import annotations

import gzip
import json
import re
import urllib.request
from pathlib import Path

import pytest

from tests.web.browser import MakePerson, WebHost, needs_browser
from tests.web.hostile_texts import hostile_texts

ASSETS = Path(__file__).parents[2] / "src" / "dragoman" / "web" / "assets"

# What would make code or elements of a text, or load something from elsewhere.
FORBIDDEN = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|from \"https?:"

# Of all files of the page, gzipped. Bytes.
MAX_WEIGHT = 250_000


@needs_browser
@pytest.mark.item("FA-14")
def test_hostile_texts_are_shown_as_text_and_execute_nothing(
    host: WebHost, person: MakePerson, tokens: dict[str, str]
) -> None:
    texts = hostile_texts()
    assert len(texts) >= 200
    ann = person(tokens["ann"])
    dialogs: list[str] = []
    ann.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    show = (Path(__file__).parent / "hostile.js").read_text(encoding="utf-8")
    version = ann.page.evaluate("() => document.querySelector('script[type=module]').src.match(/web.(\\w+)/)[1]")
    assert ann.page.evaluate(show, [texts, version]) == []
    assert ann.page.evaluate("() => window.hit") is None
    assert dialogs == []
    assert [url for url in ann.requests if not url.startswith((host.url, "blob:"))] == []


@needs_browser
@pytest.mark.item("FA-13")
def test_the_policy_of_the_page_has_nothing_unsafe_and_nothing_is_inline(host: WebHost) -> None:
    with urllib.request.urlopen(f"{host.url}/", timeout=60) as answer:
        policy, html = answer.headers["content-security-policy"], answer.read().decode()
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "http" not in re.sub(r"https?-only", "", policy)
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", html) == []
    assert re.findall(r'(?:src|href)="(?:https?:)?//', html) == []
    for script in ASSETS.rglob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script.read_text()
        ), script.name
        assert not re.search(r"""from "https?:|import\("https?:""", script.read_text()), script.name


def test_the_page_weighs_little() -> None:
    weights = {
        path.name: min(path.stat().st_size, len(gzip.compress(path.read_bytes(), 9))) for path in ASSETS.rglob("*.*")
    }
    assert sum(weights.values()) <= MAX_WEIGHT, json.dumps(weights)
