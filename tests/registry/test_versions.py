"""Versions and ranges of npm and Python."""

from __future__ import annotations

import pytest

from dragoman.registry.versions import is_newer, is_prerelease, newest, satisfies_npm_range, satisfies_python_range


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.9.0", "1.10.0"),
        ("0.85.1", "0.85.2-preview.22"),
        ("0.85.2-preview.3", "0.85.2-preview.22"),
        ("0.85.2-preview.22", "0.85.2"),
        ("2026.08.11", "2026.10.01"),
        ("3000.4.25", "3000.6.7"),
        ("1.0", "1.0.1"),
        ("1.0rc1", "1.0"),
        ("1.0.0-alpha.1", "1.0.0-beta"),
    ],
)
def test_a_newer_version_comes_after_an_older_one(older: str, newer: str) -> None:
    assert is_newer(newer, older)
    assert not is_newer(older, newer)


def test_equal_versions_are_not_newer_than_each_other() -> None:
    assert not is_newer("1.0", "1.0.0")
    assert not is_newer("1.2.3+build5", "1.2.3")


def test_the_newest_release_is_preferred_to_a_later_preview() -> None:
    assert newest(["1.0.0", "1.1.0-preview.1", "0.9.0"]) == "1.0.0"
    assert newest(["1.1.0-preview.1"]) == "1.1.0-preview.1"
    assert newest([]) == ""
    assert is_prerelease("1.0.0b2")
    assert not is_prerelease("2026.10.01")


@pytest.mark.parametrize(
    ("version", "wanted", "holds"),
    [
        ("20.20.2", ">=20", True),
        ("v20.20.2", ">=22", False),
        ("22.0.0", ">=20.0.0", True),
        ("20.18.0", "^20.19.0 || >=22.12.0", False),
        ("20.19.1", "^20.19.0 || >=22.12.0", True),
        ("22.12.0", "^20.19.0 || >=22.12.0", True),
        ("21.0.0", "^20.19.0 || >=22.12.0", False),
        ("18.3.0", "18.x", True),
        ("19.0.0", "18.x", False),
        ("24.1.0", ">= 18 < 23", False),
        ("22.9.0", ">= 18 < 23", True),
        ("20.1.0", "~20.1", True),
        ("20.2.0", "~20.1", False),
        ("0.2.5", "^0.2.3", True),
        ("0.3.0", "^0.2.3", False),
        ("19.5.0", "18 - 20", True),
        ("21.0.0", "18 - 20", False),
        ("20.0.0", "*", True),
        ("20.0.0", "", True),
        ("20.0.0", "node for ever", True),
    ],
)
def test_ranges_of_npm(version: str, wanted: str, holds: bool) -> None:
    assert satisfies_npm_range(version, wanted) is holds


@pytest.mark.parametrize(
    ("version", "wanted", "holds"),
    [
        ("3.11.7", ">=3.12,<3.15", False),
        ("3.12.0", ">=3.12,<3.15", True),
        ("3.15.1", ">=3.12,<3.15", False),
        ("3.11.7", "~=3.11", True),
        ("3.11.7", "==3.11.*", True),
        ("3.11.7", "!=3.11.*", False),
        ("3.11", ">=3.11.0", True),
        ("3.11.7", "", True),
    ],
)
def test_ranges_of_python(version: str, wanted: str, holds: bool) -> None:
    assert satisfies_python_range(version, wanted) is holds
