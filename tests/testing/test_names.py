"""Every public name of dragoman.testing exists, has a docstring, and is on the testing page."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import dragoman.testing as kit
from dragoman.inspect import pytest_plugin as recordings
from dragoman.inspect import recorded_peer
from dragoman.testing import pytest_plugin
from tests.source_facts import parse

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
NAMES = sorted(kit.__all__)


def fixtures() -> list[str]:
    """Return the names of the fixtures of both plug-ins."""
    return sorted(
        node.name
        for module in (pytest_plugin, recordings)
        for node in parse(inspect.getsource(module)).body
        if isinstance(node, ast.FunctionDef) and any("fixture" in ast.unparse(each) for each in node.decorator_list)
    )


def test_the_public_names_are_sorted_and_each_has_a_module() -> None:
    def reading_order(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2), name

    assert kit.__all__ == sorted(set(kit.__all__), key=reading_order)
    assert set(kit.__all__) == set(kit._HOME)
    assert set(kit.__all__) <= set(dir(kit))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        kit.nothing  # noqa: B018


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_docstring_and_is_documented(name: str) -> None:
    thing = getattr(kit, name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert (inspect.getdoc(thing) or "").strip(), f"{name} does not say what it is"
    assert re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", PAGE), f"docs/testing.md does not mention {name}"


@pytest.mark.parametrize("name", [*fixtures(), *(mark.partition("(")[0] for mark in pytest_plugin.MARKS)])
def test_a_fixture_and_a_mark_are_documented(name: str) -> None:
    assert f"`{name}" in PAGE


@pytest.mark.parametrize("option", ["--acp-agent", "--acp-timeout", "--acp-record"])
def test_an_option_is_documented(option: str) -> None:
    assert option in PAGE


def test_the_recorded_peers_are_documented() -> None:
    for name in ("Recording", *(name for name in vars(recorded_peer.Recording) if not name.startswith("_"))):
        assert name in PAGE, f"docs/testing.md does not mention {name}"
    assert fixtures(), "no fixture found"
