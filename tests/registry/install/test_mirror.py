"""What a source archive says that it needs to be built: packages with versions, no option and no address for uv."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.registry.fault import RegistryFault
from dragoman.registry.install.mirror import builders_of
from dragoman.registry.install.pypi_list import REQUIREMENT
from tests.registry.packages import tarball


def source(folder: Path, pyproject: str) -> str:
    """Write a source archive with a pyproject.toml; return its path."""
    path = folder / "part-1.0.tar.gz"
    path.write_bytes(tarball({"part-1.0/pyproject.toml": pyproject.encode()}))
    return str(path)


def test_what_builds_a_package_is_read_from_its_source(tmp_path: Path) -> None:
    wanted = [
        "hatchling",
        "setuptools>=61.0, <80 , != 70.*",
        "setuptools_scm[toml, simple]~=8.0",
        "Cython (>=3,<4)",
        "numpy === 2.0.0rc1+local ; python_version >= '3.11' and platform_machine != \"arm64\"",
        "tomli; python_full_version<'3.11.0a7'",
    ]
    pyproject = f"[build-system]\nrequires = {json.dumps(wanted)}\n"
    assert builders_of(source(tmp_path, pyproject)) == wanted


@pytest.mark.parametrize("pyproject", ["", "[project]\nname = 'part'\n", "this is no TOML"])
def test_a_package_that_does_not_say_what_builds_it_is_built_with_setuptools(tmp_path: Path, pyproject: str) -> None:
    assert builders_of(source(tmp_path, pyproject)) == ["setuptools >= 40.8.0"]


@pytest.mark.parametrize(
    "requires",
    [
        ["--no-binary :all:"],
        ["hatchling", "-r /etc/passwd"],
        ["-e ."],
        ["x @ file:///tmp/x"],
        ["x@https://evil.example/x.whl"],
        ["a\n--index-url http://evil.example"],
        ["a\r--index-url http://evil.example"],
        ["a\n"],
        ["a --no-binary :all:"],
        ["a>=1 --no-binary :all:"],
        ["a>= --no-binary"],
        ["a[b, --no-binary]"],
        ["a ; python_version > '3' --config-settings x"],
        ["a \\"],
        ["a # comment"],
        ["${HOME}"],
        ["../x"],
        ["https://evil.example/x.whl"],
        [""],
        [5],
        [["a"]],
        5,
        "hatchling",
        True,
    ],
)
def test_a_source_that_gives_uv_more_than_packages_is_refused(tmp_path: Path, requires: Any) -> None:
    pyproject = f"[build-system]\nrequires = {json.dumps(requires)}\n"
    with pytest.raises(RegistryFault, match="is built with") as caught:
        builders_of(source(tmp_path, pyproject))
    assert caught.value.why == "archive"


@given(st.lists(st.sampled_from(["a", "-", "--x", "==1", "[b]", ";", "'", " ", "\n", "\r", "@", "/", ":", "#", "\\"])))
def test_no_requirement_has_an_option_an_address_or_a_second_line(words: list[str]) -> None:
    text = "".join(words)
    if REQUIREMENT.fullmatch(text):
        assert re.search(r"^\s*-|\s--|[\n\r@/:#\\]", text) is None
