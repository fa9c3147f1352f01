"""Which kind of distribution is installed, and what is refused before anything is fetched."""

from __future__ import annotations

import pytest

from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import Binary, Entry, Package
from dragoman.registry.install.resolve import choose_kind
from dragoman.registry.platforms import Machine

LINUX = Machine("linux-x86_64")
MUSL = Machine("linux-x86_64", prefers_packages=True)


def agent(*kinds: str, sha256: str = "") -> Entry:
    target = Binary(platform="linux-x86_64", archive="https://x", cmd="x", sha256=sha256)
    packages = {kind: Package(kind=kind, name="x") for kind in kinds if kind != "binary"}
    binaries = {"linux-x86_64": target} if "binary" in kinds else {}
    return Entry(id="x", name="x", version="1", packages=packages, binaries=binaries)


@pytest.mark.parametrize(
    ("entry", "machine", "has_node", "kind"),
    [
        (agent("binary", "npx", sha256="ab"), LINUX, True, "binary"),
        (agent("binary", "npx"), LINUX, True, "npx"),
        (agent("binary", "npx", "uvx"), LINUX, False, "uvx"),
        (agent("binary", "npx"), LINUX, False, "npx"),
        (agent("binary", "npx", sha256="ab"), MUSL, True, "npx"),
        (agent("binary", sha256="ab"), MUSL, True, "binary"),
        (agent("binary"), LINUX, True, "binary"),
        (agent("uvx"), LINUX, lambda: True, "uvx"),
    ],
)
def test_the_kind_with_the_best_guarantee_that_runs_here_is_chosen(
    entry: Entry, machine: Machine, has_node: bool, kind: str
) -> None:
    assert choose_kind(entry, machine, lambda: has_node) == kind


def test_what_cannot_run_here_is_refused_with_what_there_is() -> None:
    with pytest.raises(RegistryFault, match="only for linux-x86_64"):
        choose_kind(agent("binary"), Machine("darwin-aarch64"), lambda: True)
    with pytest.raises(RegistryFault, match="it has no uvx; it has binary, npx"):
        choose_kind(agent("binary", "npx"), LINUX, lambda: True, "uvx")
