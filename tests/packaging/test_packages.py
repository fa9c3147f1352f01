"""The packages of an agent, and the rules that its folder must follow."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dragoman.errors import ConfigFault
from dragoman.packaging.archives import pack_folder
from dragoman.packaging.licenses import recognize_license
from dragoman.packaging.output import write_package
from dragoman.packaging.source import read_source
from dragoman.packaging.targets import BUILDERS, EXEMPT, Package
from tests.packaging.authors_folder import MANIFEST, ROOT, make_folder

SCHEMA = json.loads((ROOT / "tests" / "data" / "packaging" / "agent.schema.json").read_text())


def build(folder: Path, kind: str) -> tuple[Package, list[str]]:
    source = read_source(str(folder))
    package = BUILDERS[kind](source)
    rules = [each.rule for each in source.findings.faults if not each.rule.startswith(EXEMPT[kind] or "\0")]
    return package, rules


def binary(**changes: Any) -> dict[str, Any]:
    """The distribution with other members in the Linux target."""
    distribution = deepcopy(MANIFEST["distribution"])
    distribution["binary"]["linux-x86_64"].update(changes)
    return dict(distribution)


@pytest.mark.item("RG-22")
def test_the_entry_of_the_registry_fits_its_schema_and_its_rules(tmp_path: Path) -> None:
    package, rules = build(make_folder(tmp_path / "banjo"), "registry")
    assert rules == []
    entry = json.loads(package.files["banjo/agent.json"])
    jsonschema.validate(entry, SCHEMA)
    assert set(entry["distribution"]["binary"]) == set(MANIFEST["distribution"]["binary"])
    assert b'viewBox="0 0 16 16"' in package.files["banjo/icon.svg"]


@pytest.mark.item("RG-22")
@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"id": "Banjo"}, "manifest.id"),
        ({"id": None}, "manifest.id"),
        ({"name": ""}, "manifest.name"),
        ({"version": "1.0"}, "manifest.version"),
        ({"version": 1}, "manifest.version"),
        ({"description": None}, "manifest.description"),
        ({"repository": "git@github.com:a/b"}, "manifest.repository"),
        ({"authors": "me"}, "manifest.authors"),
        ({"distribution": None, "version": "0.1"}, "manifest.version"),
        ({"distribution": {"docker": {}}}, "manifest.distribution"),
        ({"distribution": []}, "manifest.distribution"),
        ({"distribution": binary(archive="http://a.example/b.tar.gz")}, "binary.archive"),
        ({"distribution": binary(archive="https://a.example/latest/b.tar.gz")}, "binary.latest"),
        ({"distribution": binary(archive="https://a.example/download/v0.2.0/b.tar.gz")}, "binary.version"),
        ({"distribution": binary(archive="https://a.example/b.deb")}, "binary.archive"),
        ({"distribution": binary(cmd="../banjo")}, "binary.cmd"),
        ({"distribution": binary(cmd="./gone")}, "binary.cmd"),
        ({"distribution": binary(cmd=None)}, "binary.cmd"),
        ({"distribution": binary(args="acp")}, "manifest.args"),
        ({"distribution": binary(env={"LD_PRELOAD": "x"})}, "manifest.env"),
        ({"distribution": binary(env={"A": 1})}, "manifest.env"),
        ({"distribution": binary(color="red")}, "manifest.member"),
        ({"distribution": {"binary": {"linux-x86_64": {"cmd": "./banjo"}, "plan9": {}}}}, "binary.platform"),
        ({"distribution": {"npx": {"package": "banjo@latest"}}}, "npx.latest"),
        ({"distribution": {"npx": {"package": "@a/banjo"}}}, "npx.latest"),
        ({"distribution": {"npx": {"package": "@a/banjo@0.2.0"}}}, "npx.version"),
        ({"distribution": {"npx": {}}}, "npx.package"),
        ({"distribution": {"uvx": {"package": "banjo>=0.1.0"}}}, "uvx.latest"),
        ({"distribution": {"uvx": {"package": "banjo[acp]==0.1.1"}}}, "uvx.version"),
        ({"preview": {"version": "0.2.0"}}, "manifest.preview"),
        ({"preview": {"version": "0.2.0", "distribution": {"binary": {}}}}, "manifest.preview"),
    ],
)
def test_each_rule_of_the_registry_is_one_line_with_its_fix(tmp_path: Path, changes: dict[str, Any], rule: str) -> None:
    source = read_source(str(make_folder(tmp_path / "banjo", **changes)))
    found = [fault for fault in source.findings.faults if fault.rule == rule]
    assert found, source.findings.faults
    assert all(fault.fix and "\n" not in str(fault) for fault in source.findings.faults)


def test_a_binary_entry_without_all_systems_is_refused_only_by_the_registry(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "banjo")
    shutil.rmtree(folder / "bin" / "windows-x86_64")
    manifest = json.loads((folder / "agent.json").read_text())
    del manifest["distribution"]["binary"]["windows-x86_64"]
    (folder / "agent.json").write_text(json.dumps(manifest))
    assert build(folder, "registry")[1] == ["binary.systems"]
    assert build(folder, "zed-extension")[1] == []


def test_what_editors_do_not_show_is_noted(tmp_path: Path) -> None:
    uvx = {"uvx": {"package": "banjo==0.1.0", "cmd": "banjo-acp"}}
    folder = make_folder(tmp_path / "a", distribution=uvx, license=None)
    shutil.rmtree(folder / "bin")
    notes = " ".join(read_source(str(folder)).findings.notes)
    assert "Zed does not show agents that have only uvx" in notes
    assert "Zed ignores the cmd of uvx" in notes
    assert "no license" in notes
    bare = read_source(str(make_folder(tmp_path / "b", distribution=binary(cmd="banjo"))))
    assert any("Zed refuses the cmd of linux-x86_64 (banjo); write ./banjo" in note for note in bare.findings.notes)


# --- archives -------------------------------------------------------------------------------------------------


def test_packing_is_reported_archive_by_archive(tmp_path: Path) -> None:
    steps: list[str] = []
    read_source(str(make_folder(tmp_path / "banjo")), steps.append)
    assert steps[0] == "packing banjo-darwin-aarch64.tar.gz"
    assert len(steps) == 4


@pytest.mark.item("003-22")
def test_archives_are_named_as_the_manifest_needs_them(tmp_path: Path) -> None:
    package, rules = build(make_folder(tmp_path / "banjo"), "zed-extension")
    assert rules == []
    targets = tomllib.loads(package.files["banjo/extension.toml"].decode())["agent_servers"]["banjo"]["targets"]
    for platform in ("darwin-aarch64", "darwin-x86_64", "linux-x86_64"):
        target = targets[platform]
        name = target["archive"].rpartition("/")[2]
        assert target["archive"].startswith("https://github.com/user/banjo/releases/download/v0.1.0/")
        data = package.files[f"archives/{name}"]
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            member = archive.getmember(target["cmd"].removeprefix("./"))
            assert member.mode == 0o755
        assert f"{target['sha256']}  {name}" in package.files["archives/SHA256SUMS"].decode()


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tbz2", "a.zip"])
def test_an_archive_has_the_same_bytes_each_time_and_keeps_modes_and_links(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "tree"
    (folder / "lib").mkdir(parents=True)
    (folder / "run").write_bytes(b"#!")
    (folder / "run").chmod(0o700)
    (folder / "lib" / "data").write_text("x")
    (folder / "link").symlink_to("lib/data")
    first = pack_folder(str(folder), name)
    os.utime(folder / "run", (1, 1))
    assert pack_folder(str(folder), name) == first
    if name.endswith("zip"):
        with zipfile.ZipFile(io.BytesIO(first)) as archive:
            modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
        assert (modes["run"] & 0o777, modes["lib/data"] & 0o777) == (0o755, 0o644)
        assert modes["link"] & 0o170000 == 0o120000
    else:
        with tarfile.open(fileobj=io.BytesIO(first)) as tar:
            found = {entry.name: (entry.mode, entry.issym()) for entry in tar.getmembers()}
        assert found["run"] == (0o755, False)
        assert found["link"][1]


def test_what_installers_would_refuse_is_not_packed(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc/passwd")
    with pytest.raises(ValueError, match="leaves the folder"):
        pack_folder(str(tmp_path), "a.zip")
    (tmp_path / "out").unlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="special file"):
        pack_folder(str(tmp_path), "a.zip")


def test_a_build_of_another_platform_is_found(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "banjo")
    shutil.copy(folder / "bin" / "darwin-x86_64" / "banjo", folder / "bin" / "darwin-aarch64" / "banjo")
    shutil.copy(folder / "bin" / "darwin-x86_64" / "banjo", folder / "bin" / "linux-x86_64" / "banjo")
    found = [fault.found for fault in read_source(str(folder)).findings.faults if fault.rule == "binary.program"]
    assert [text.partition(" is ")[2] for text in found] == ["for x86_64", "no program for linux"]


# --- the Zed extension ----------------------------------------------------------------------------------------


@pytest.mark.item("003-21")
@pytest.mark.item("003-24")
@pytest.mark.item("RG-23")
def test_a_zed_extension_has_the_tree_that_zed_installs_as_a_dev_extension(tmp_path: Path) -> None:
    package, rules = build(make_folder(tmp_path / "banjo"), "zed-extension")
    assert rules == []
    write_package(package, str(tmp_path / "out"))
    extension = tmp_path / "out" / "banjo"
    tree = sorted(str(path.relative_to(extension)) for path in extension.rglob("*") if path.is_file())
    assert tree == ["LICENSE", "README.md", "extension.toml", "icon/banjo.svg"]
    manifest = tomllib.loads((extension / "extension.toml").read_text())
    server = manifest["agent_servers"]["banjo"]
    # The members that Zed's manifest has; it refuses an extension without the first five.
    assert manifest["id"] == "banjo"
    assert {type(manifest[key]) for key in ("name", "version", "description", "repository")} == {str}
    assert (manifest["schema_version"], manifest["authors"]) == (1, ["A. Author"])
    assert (extension / server["icon"]).is_file()
    for target in server["targets"].values():
        assert target.keys() <= {"archive", "cmd", "args", "sha256", "env"}
        assert target["archive"].startswith("https://")
        assert target["cmd"].startswith("./")
    assert any("deprecated" in note for note in package.notes)


@pytest.mark.item("RG-23")
@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"id": "zed-banjo"}, "extension.id"),
        ({"id": "banjo-zed"}, "extension.id"),
        ({"id": "my-extension"}, "extension.id"),
        ({"name": "Zed Banjo"}, "extension.name"),
        ({"name": "Banjo Extension"}, "extension.name"),
        ({"authors": None}, "extension.authors"),
    ],
)
def test_the_rules_of_the_extension_repository(tmp_path: Path, changes: dict[str, Any], rule: str) -> None:
    assert rule in build(make_folder(tmp_path / "banjo", **changes), "zed-extension")[1]


def test_an_extension_needs_binaries_and_a_license_that_is_accepted(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "banjo", distribution={"npx": {"package": "banjo@0.1.0"}})
    shutil.rmtree(folder / "bin")
    (folder / "LICENSE").write_text("All rights reserved.")
    assert build(folder, "zed-extension")[1] == ["extension.targets", "extension.license"]


def test_licenses_are_recognized_by_their_text() -> None:
    assert recognize_license((ROOT / "LICENSE").read_text()) == "Apache-2.0"
    assert (
        recognize_license("This is free and unencumbered\n software released into the public  domain.") == "Unlicense"
    )
    assert recognize_license("Do what you like.") == ""


# --- the Python project ---------------------------------------------------------------------------------------

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "banjo-agent"
version = "0.1.0"
description = "An agent for tests"
requires-python = ">=3.11"
authors = [{ name = "A. Author" }]
urls = { Repository = "https://github.com/user/banjo" }

[project.scripts]
banjo-agent = "banjo_agent:main"
"""

# Builds a wheel with nothing but Python, so that the test needs no build tool.
BACKEND = """\
import zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "banjo_agent-0.1.0-py3-none-any.whl"
    info = "banjo_agent-0.1.0.dist-info"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.write("banjo_agent.py")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: banjo-agent\\nVersion: 0.1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\\nbanjo-agent = banjo_agent:main\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


def python_folder(folder: Path, text: str = PYPROJECT) -> Path:
    folder.mkdir()
    (folder / "pyproject.toml").write_text(text)
    (folder / "backend.py").write_text(BACKEND)
    (folder / "banjo_agent.py").write_text("def main() -> None:\n    print('here')\n")
    return folder


def test_a_python_project_needs_no_agent_json_and_no_icon_for_pypi(tmp_path: Path) -> None:
    package, rules = build(python_folder(tmp_path / "p"), "pypi")
    assert rules == []
    entry = json.loads(package.files["agent.json"])
    assert entry["distribution"] == {"uvx": {"package": "banjo-agent==0.1.0"}}
    assert (entry["id"], entry["authors"]) == ("banjo-agent", ["A. Author"])
    jsonschema.validate(entry, SCHEMA)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("[project.scripts]", "[project.other]", "pypi.script"),
        ("requires-python", "other", "pypi.python"),
        ("[build-system]", "[other]", "pypi.build"),
        ("[project]\n", "", "manifest.file"),
        ("= ", "", "pyproject.toml"),
    ],
)
def test_the_rules_for_pypi(tmp_path: Path, old: str, new: str, rule: str) -> None:
    text = PYPROJECT.replace(old, new, 1)
    if rule == "manifest.file":
        text = PYPROJECT.partition("[project]")[0]
    assert rule in build(python_folder(tmp_path / "p", text), "pypi")[1]


def test_what_a_project_lacks_is_added_to_pyproject(tmp_path: Path) -> None:
    folder = python_folder(tmp_path / "p", PYPROJECT.replace('description = "An agent for tests"', ""))
    findings = read_source(str(folder)).findings
    fixes = [fault.fix for fault in findings.faults if fault.rule == "manifest.description"]
    assert fixes == ["add description to [project] of pyproject.toml"]
    assert not [note for note in findings.notes if "agent.json" in note]


@pytest.mark.parametrize("kind", ["registry", "pypi"])
def test_an_empty_folder_lacks_a_manifest_and_no_more_of_it(tmp_path: Path, kind: str) -> None:
    rules = build(tmp_path, kind)[1]
    assert [rule for rule in rules if rule.startswith(("manifest", "pypi"))] == ["manifest.file"]


def test_the_version_of_the_project_must_be_that_of_the_manifest(tmp_path: Path) -> None:
    folder = python_folder(tmp_path / "p")
    manifest = {**MANIFEST, "version": "0.2.0", "distribution": {"uvx": {"package": "other==0.2.0"}}}
    (folder / "agent.json").write_text(json.dumps(manifest))
    assert build(folder, "pypi")[1] == ["pypi.name", "pypi.version", "pypi.script"]


def test_the_script_for_pypi_builds_a_wheel_that_has_the_program(tmp_path: Path) -> None:
    folder = python_folder(tmp_path / "p")
    write_package(build(folder, "pypi")[0], str(tmp_path / "out"))
    ran = subprocess.run(
        ["sh", tmp_path / "out" / "publish.sh", folder],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert [path.name for path in (tmp_path / "out" / "dist").iterdir()] == ["banjo_agent-0.1.0-py3-none-any.whl"]
    assert "-m twine upload" in ran.stdout


# --- publishing -----------------------------------------------------------------------------------------------


def git(*arguments: str, cwd: Path) -> str:
    run = subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=True)
    return run.stdout


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of a repository, as far as the scripts need it."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A. Author")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "author@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder = tmp_path / "checkout"
    (folder / ".github" / "workflows").mkdir(parents=True)
    (folder / ".github" / "workflows" / "build_registry.py").write_text(
        "import json, pathlib\n"
        "json.loads(pathlib.Path('banjo/agent.json').read_text())\n"
        "print('checked by the registry')\n"
    )
    (folder / "extensions.toml").write_text(
        '[abc]\nsubmodule = "extensions/abc"\nversion = "1.0.0"\n\n'
        '[zig]\nsubmodule = "extensions/zig"\nversion = "1.0.0"\n'
    )
    (folder / ".gitmodules").write_text(
        '[submodule "extensions/abc"]\n\tpath = extensions/abc\n\turl = https://example.org/abc.git\n'
    )
    git("init", "-q", "-b", "main", cwd=folder)
    git("add", "-A", cwd=folder)
    git("commit", "-qm", "start", cwd=folder)
    return folder


def publish(script: Path, *arguments: Path | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", script, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.item("003-25")
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_script_for_the_registry_does_everything_up_to_the_network(tmp_path: Path, checkout: Path) -> None:
    write_package(build(make_folder(tmp_path / "banjo"), "registry")[0], str(tmp_path / "out"))
    script = tmp_path / "out" / "publish.sh"
    assert publish(script).returncode == 2
    ran = publish(script, checkout)
    assert ran.returncode == 0, ran.stderr
    assert "banjo-linux-x86_64.tar.gz: OK" in ran.stdout
    assert "checked by the registry" in ran.stdout
    assert git("show", "--stat", "--format=%s", "banjo-0.1.0", cwd=checkout).startswith("Add Banjo 0.1.0")
    assert "gh pr create --repo agentclientprotocol/registry --title 'Add Banjo 0.1.0'" in ran.stdout
    assert publish(script, checkout).returncode == 0
    (tmp_path / "out" / "archives" / "banjo-linux-x86_64.tar.gz").write_bytes(b"changed")
    assert publish(script, checkout).returncode != 0


@pytest.mark.item("003-25")
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_script_for_zed_enters_the_extension_into_sorted_tables(tmp_path: Path, checkout: Path) -> None:
    write_package(build(make_folder(tmp_path / "banjo"), "zed-extension")[0], str(tmp_path / "out"))
    ran = publish(tmp_path / "out" / "publish.sh", tmp_path / "own", checkout)
    assert ran.returncode == 0, ran.stderr
    assert list(tomllib.loads((checkout / "extensions.toml").read_text())) == ["abc", "banjo", "zig"]
    assert (
        (checkout / ".gitmodules")
        .read_text()
        .endswith(
            '[submodule "extensions/banjo"]\n\tpath = extensions/banjo\n\turl = https://github.com/user/banjo.git\n'
        )
    )
    pointer = git("ls-tree", "HEAD", "extensions/banjo", cwd=checkout)
    assert pointer.startswith(f"160000 commit {git('rev-parse', 'v0.1.0', cwd=tmp_path / 'own').strip()}")
    assert "gh release create v0.1.0 --repo user/banjo" in ran.stdout


def test_names_of_an_author_are_data_in_the_scripts(tmp_path: Path, checkout: Path) -> None:
    folder = make_folder(tmp_path / "banjo", name="Ban\"$(touch pwned)`touch pwned`'jo")
    write_package(build(folder, "registry")[0], str(tmp_path / "out"))
    ran = publish(tmp_path / "out" / "publish.sh", checkout)
    assert ran.returncode == 0, ran.stderr
    assert not (checkout / "pwned").exists()
    assert not (tmp_path / "out" / "archives" / "pwned").exists()


# --- output ---------------------------------------------------------------------------------------------------


def test_a_package_replaces_an_older_one_and_nothing_else(tmp_path: Path) -> None:
    package, _ = build(make_folder(tmp_path / "banjo"), "registry")
    out = tmp_path / "out"
    write_package(package, str(out))
    (out / "stale").write_text("")
    write_package(package, str(out))
    assert not (out / "stale").exists()
    assert os.access(out / "publish.sh", os.X_OK)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis").write_text("")
    with pytest.raises(ConfigFault, match="was not made by"):
        write_package(package, str(mine))
    assert (mine / "thesis").exists()
    assert sorted(os.listdir(tmp_path)) == ["banjo", "mine", "out"]
