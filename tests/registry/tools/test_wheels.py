"""node and uv as wheels: found in both forms of the simple API, for this machine, and compared with their hash."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.registry.fault import RegistryFault
from dragoman.registry.fetch.http import Http
from dragoman.registry.platforms import has_glibc, this_machine
from dragoman.registry.tools.find import Node, choose_node, find_uv
from dragoman.registry.tools.wheels import UV, bring, find_wheel, parse_links, runs_here, tool_program
from tests.registry.stand_in import Site, serve


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as running:
        yield running


def wheel_tag() -> str:
    system, _, processor = this_machine().platform.partition("-")
    if system == "darwin":
        return f"macosx_11_0_{'arm64' if processor == 'aarch64' else processor}"
    return f"{'manylinux_2_17' if has_glibc() else 'musllinux_1_2'}_{processor}"


def serve_uv(site: Site, version: str = "9.0.0", *, sha256: str = "") -> dict[str, str]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        info = zipfile.ZipInfo(f"uv-{version}.data/scripts/uv")
        info.create_system, info.external_attr = 3, 0o100755 << 16
        made.writestr(info, f"#!/bin/sh\necho uv {version}\n")
    name = f"uv-{version}-py3-none-{wheel_tag()}.whl"
    site.pages[f"/files/{name}"] = buffer.getvalue()
    digest = sha256 or hashlib.sha256(buffer.getvalue()).hexdigest()
    rows = [
        {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": digest}},
        {"filename": "uv-9.1.0rc1-py3-none-any.whl", "url": "x", "hashes": {"sha256": "0" * 64}},
        {"filename": "uv-9.2.0-py3-none-win_amd64.whl", "url": "x", "hashes": {"sha256": "0" * 64}},
        {"filename": "uv-9.3.0.tar.gz", "url": "x", "hashes": {"sha256": "0" * 64}},
    ]
    site.pages["/simple/uv/"] = json.dumps({"files": rows}).encode()
    return {"UV_DEFAULT_INDEX": f"{site.url}/simple"}


def test_the_newest_wheel_for_this_machine_is_brought_into_a_folder_of_ours(site: Site, tmp_path: Path) -> None:
    environ = serve_uv(site)
    wheel = find_wheel(Http(), UV, environ)
    assert wheel.version == "9.0.0"
    path = bring(Http(), wheel, str(tmp_path / "tools"), str(tmp_path / "downloads"))
    assert os.popen(path).read() == "uv 9.0.0\n"
    assert tool_program(str(tmp_path / "tools"), UV) == path
    assert sorted(os.listdir(tmp_path / "tools")) == ["uv-9.0.0"]
    found = find_uv(str(tmp_path / "tools"), {"PATH": "/nowhere"})
    assert found is not None


def test_a_wheel_with_another_hash_is_not_kept(site: Site, tmp_path: Path) -> None:
    environ = serve_uv(site, sha256="1" * 64)
    with pytest.raises(RegistryFault, match="PyPI says SHA-256 1111") as caught:
        bring(Http(), find_wheel(Http(), UV, environ), str(tmp_path / "tools"), str(tmp_path / "downloads"))
    assert caught.value.exit_code == 5
    assert os.listdir(tmp_path / "tools") == []
    assert os.listdir(tmp_path / "downloads") == []


def test_a_machine_without_a_wheel_is_told_what_to_do(site: Site) -> None:
    site.pages["/simple/uv/"] = b"<html><a href='x#sha256=0'>uv-1.0.0-py3-none-win_amd64.whl</a></html>"
    with pytest.raises(RegistryFault, match="install uv yourself"):
        find_wheel(Http(), UV, {"PIP_INDEX_URL": f"{site.url}/simple/"})


def test_both_forms_of_the_simple_api_are_read() -> None:
    html = b'<a href="../f/a-1-py3-none-any.whl#sha256=ab" data-requires-python="&gt;=3.9">a-1-py3-none-any.whl</a>'
    page = "https://example.org/simple/a/"
    assert parse_links(html, page) == [
        ("a-1-py3-none-any.whl", "https://example.org/simple/f/a-1-py3-none-any.whl", "ab")
    ]
    data = json.dumps({"files": [{"filename": "a.whl", "url": "/f/a.whl", "hashes": {"sha256": "ab"}}]}).encode()
    assert parse_links(data, page) == [("a.whl", "https://example.org/f/a.whl", "ab")]
    with pytest.raises(RegistryFault):
        parse_links(b"{broken", page)


def test_wheels_for_other_machines_do_not_run_here() -> None:
    assert runs_here(wheel_tag())
    assert not runs_here("win_amd64")
    assert not runs_here("manylinux_2_999_x86_64")
    assert not runs_here("any")


def test_the_first_node_that_a_package_accepts_is_chosen() -> None:
    old, new = Node("/a/node", "v20.20.2", "npm"), Node("/b/node", "v24.1.0", "npm")
    assert choose_node([old, new], ">=18") == old
    assert choose_node([old, new], ">=22") == new
    assert choose_node([old, new], ">=26") is None
