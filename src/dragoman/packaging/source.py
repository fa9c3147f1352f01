"""The author's folder: agent.json (or pyproject.toml), icon.svg, LICENSE, README.md and the builds in bin/PLATFORM."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.packaging.archives import check_program, pack_folder, sha256
from dragoman.packaging.faults import Findings
from dragoman.packaging.icon.normalize import normalize_icon
from dragoman.packaging.licenses import recognize_license
from dragoman.packaging.manifest import PLATFORMS, Manifest, archive_name, check_manifest, targets_of

_MAX_FILE = 4 * 1024 * 1024  # bytes; larger than any file that an author writes by hand


class Source(msgspec.Struct, kw_only=True):
    """What an author's folder has, completed and checked."""

    folder: str
    manifest: Manifest
    findings: Findings
    icon: str = ""
    license: str = ""  # "" if it is not one of those that we know
    license_text: str = ""
    readme: str = ""
    pyproject: dict[str, Any] | None = None
    archives: dict[str, bytes] = {}  # by file name


def read_source(folder: str, report: Callable[[str], None] = lambda text: None) -> Source:
    """Read and check a folder; what is wrong is in the findings. `report` gets each step that can take long."""
    findings = Findings()
    pyproject = _read_pyproject(folder, findings)
    manifest = _read_manifest(folder, pyproject, findings)
    source = Source(folder=folder, manifest=manifest, findings=findings, pyproject=pyproject)
    _complete(source)
    if not any(fault.rule == "manifest.file" for fault in findings.faults):  # else what it lacks is unknown
        is_made = not os.path.exists(os.path.join(folder, "agent.json"))
        check_manifest(manifest, findings, "[project] of pyproject.toml" if is_made else "agent.json")
    _read_icon(source)
    for name in sorted(os.listdir(folder) if os.path.isdir(folder) else []):
        stem = name.rpartition(".")[0].lower() or name.lower()
        if stem.startswith(("license", "licence")) and not source.license:
            source.license_text = _read_text(os.path.join(folder, name)) or ""
            source.license = recognize_license(source.license_text)
    source.readme = _read_text(os.path.join(folder, "README.md")) or ""
    _pack(source, report)
    return source


def _read_text(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_FILE).decode()
    except FileNotFoundError:
        return None


def _read_pyproject(folder: str, findings: Findings) -> dict[str, Any] | None:
    text = _read_text(os.path.join(folder, "pyproject.toml"))
    if text is None:
        return None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        findings.add_fault("pyproject.toml", f"pyproject.toml cannot be read: {error}", "correct it")
        return None


def _read_manifest(folder: str, pyproject: dict[str, Any] | None, findings: Findings) -> Manifest:
    text = _read_text(os.path.join(folder, "agent.json"))
    if text is None:
        project = (pyproject or {}).get("project")
        if isinstance(project, dict):
            findings.fixes.append("manifest: made from pyproject.toml, because there is no agent.json")
            return manifest_from_project(project)
        findings.add_fault(
            "manifest.file", f"{folder} has no agent.json", "write it, or pyproject.toml; docs/packaging.md shows both"
        )
        return {}
    try:
        manifest = json.loads(text)
    except ValueError as error:
        findings.add_fault("manifest.file", f"agent.json is not JSON: {error}", "correct it")
        return {}
    if not isinstance(manifest, dict):
        findings.add_fault("manifest.file", "agent.json is not an object", "begin it with {")
        return {}
    return manifest


def manifest_from_project(project: dict[str, Any]) -> Manifest:
    """Return the manifest of a Python project that uvx starts."""
    name, version = str(project.get("name", "")), str(project.get("version", ""))
    urls = {key.lower(): value for key, value in project.get("urls", {}).items()}
    license = project.get("license")
    scripts = list(project.get("scripts", {}))
    package: dict[str, Any] = {"package": f"{name}=={version}"}
    if scripts and name not in scripts:
        package["cmd"] = scripts[0]
    found: Manifest = {
        "id": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        "name": name,
        "version": version,
        "description": str(project.get("description", "")),
        "repository": next((urls[key] for key in ("repository", "source", "homepage") if key in urls), None),
        "authors": [each["name"] for each in project.get("authors", []) if "name" in each],
        "license": license if isinstance(license, str) else None,
        "distribution": {"uvx": package},
    }
    return {key: value for key, value in found.items() if value}


# --- what can be filled in ------------------------------------------------------------------------------------


def _complete(source: Source) -> None:
    """Fill in what follows from the folder: targets with a build, and the addresses of their archives."""
    manifest = source.manifest
    builds = [each for each in PLATFORMS if os.path.isdir(os.path.join(source.folder, "bin", each))]
    distribution = manifest.setdefault("distribution", {}) if builds else manifest.get("distribution")
    if not isinstance(distribution, dict):
        return
    binary = distribution.setdefault("binary", {}) if builds else distribution.get("binary")
    if not isinstance(binary, dict):
        return
    for platform in builds:
        if platform not in binary:
            binary[platform] = {"cmd": _only_program(source, platform)}
            source.findings.fixes.append(f"binary.targets: added {platform}, which has a build")
    repository = str(manifest.get("repository", "")).removesuffix("/").removesuffix(".git")
    for platform, target in binary.items():
        if isinstance(target, dict) and not target.get("archive") and repository.startswith("https://github.com/"):
            ending = "zip" if platform.startswith("windows") else "tar.gz"
            name = f"{manifest.get('id')}-{platform}.{ending}"
            target["archive"] = f"{repository}/releases/download/v{manifest.get('version')}/{name}"
            source.findings.fixes.append(f"binary.archive: {platform} is released as {name}")


def _only_program(source: Source, platform: str) -> str:
    folder = os.path.join(source.folder, "bin", platform)
    names = sorted(os.listdir(folder))
    suffix = ".exe" if platform.startswith("windows") else ""
    wanted = f"{source.manifest.get('id')}{suffix}"
    programs = [name for name in names if os.path.isfile(os.path.join(folder, name))]
    return f"./{wanted if wanted in programs or len(programs) != 1 else programs[0]}"


def _read_icon(source: Source) -> None:
    path = next(
        (path for name in ("icon.svg", "icon/icon.svg") if os.path.isfile(path := os.path.join(source.folder, name))),
        "",
    )
    if not path:
        found = os.listdir(source.folder) if os.path.isdir(source.folder) else []
        others = [name for name in found if name.startswith("icon.")]
        what = f"the icon is {others[0]}" if others else "there is no icon.svg"
        source.findings.add_fault("icon.file", what, "draw one as SVG: 16 by 16, one color, 1 to 2 pixels of padding")
        return
    with open(path, "rb") as file:
        source.icon, found_icon = normalize_icon(file.read(_MAX_FILE))
    source.findings.faults += found_icon.faults
    source.findings.fixes += found_icon.fixes
    source.findings.notes += found_icon.notes


def _pack(source: Source, report: Callable[[str], None]) -> None:
    """Make the archives of the targets that have a build, and put their digests into the manifest."""
    findings = source.findings
    for platform, target in targets_of(source.manifest).items():
        folder = os.path.join(source.folder, "bin", platform)
        url, cmd = (target.get("archive"), target.get("cmd")) if isinstance(target, dict) else (None, None)
        if platform not in PLATFORMS or not isinstance(url, str) or not isinstance(cmd, str):
            continue
        if not os.path.isdir(folder):
            if not target.get("sha256"):
                note = f"{platform} has no sha256, so nobody can check its archive: put the build into bin/{platform}"
                findings.notes.append(note)
            continue
        check_program(folder, platform, cmd, findings)
        name = archive_name(url)
        report(f"packing {name}")
        try:
            data = pack_folder(folder, name)
        except ValueError as error:
            findings.add_fault("binary.archive", str(error), "correct the folder")
            continue
        if name in source.archives and source.archives[name] != data:
            findings.add_fault("binary.archive", f"two targets are released as {name}", "give each its own file name")
        source.archives[name] = data
        target["sha256"] = sha256(data)
