"""The files of each kind of package: the entry of the registry, a Zed extension, a Python project."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dragoman.config.config_file import quote_toml
from dragoman.packaging import publish
from dragoman.packaging.licenses import ACCEPTED
from dragoman.packaging.manifest import Manifest, split_spec, targets_of
from dragoman.packaging.source import Source

REGISTRY, ZED_EXTENSION, PYPI = "registry", "zed-extension", "pypi"

# Said with every Zed extension: since Zed 1.5 the manifest of an extension has no agents any more.
DEPRECATED = "agent server extensions are deprecated since Zed 1.5, which reads the registry: publish there too"


# Rules that do not count for a kind of package, by their beginning.
EXEMPT: Mapping[str, tuple[str, ...]] = {
    REGISTRY: (),
    ZED_EXTENSION: ("binary.systems", "npx.", "uvx."),
    PYPI: ("icon.", "binary."),
}


class Package(msgspec.Struct, kw_only=True):
    """The files of a package by their path, and which of them are programs."""

    files: dict[str, bytes]
    notes: list[str] = []


def build_registry(source: Source) -> Package:
    """Return the folder of the registry's repository, the archives, and the script that publishes them."""
    manifest = {**source.manifest}
    manifest.pop("icon", None)  # the build of the registry sets it
    id = str(manifest.get("id"))
    files = {
        f"{id}/agent.json": _json(manifest),
        f"{id}/icon.svg": source.icon.encode(),
        "publish.sh": publish.registry_script(manifest, sorted(source.archives)).encode(),
        **_archive_files(source),
    }
    return Package(files=files)


def build_zed_extension(source: Source) -> Package:
    """Return a folder that Zed installs as a dev extension as it stands, and the script that publishes it."""
    manifest, findings = source.manifest, source.findings
    id, name = str(manifest.get("id", "")), str(manifest.get("name", ""))
    _check_extension_names(id, name, source)
    targets = targets_of(manifest)
    if not targets:
        findings.add_fault(
            "extension.targets", "agent.json has no binary targets", "an extension can only start binaries"
        )
    if not manifest.get("authors") or not manifest.get("repository"):
        findings.add_fault("extension.authors", "authors or repository is missing", "add both to agent.json")
    if not source.license:
        what = "the LICENSE is none of them" if source.license_text else "there is no LICENSE"
        findings.add_fault("extension.license", what, f"the repository of extensions takes {', '.join(ACCEPTED)}")
    folder = id
    files = {
        f"{folder}/extension.toml": extension_toml(manifest).encode(),
        f"{folder}/icon/{id}.svg": source.icon.encode(),
        f"{folder}/README.md": (source.readme or _readme(manifest)).encode(),
        f"{folder}/LICENSE": source.license_text.encode(),
        "publish.sh": publish.extension_script(manifest, sorted(source.archives)).encode(),
        **_archive_files(source),
    }
    return Package(files=files, notes=[DEPRECATED])


def _check_extension_names(id: str, name: str, source: Source) -> None:
    fix = "give agent.json another id; all extensions are for Zed"
    if id.startswith("zed-") or id.endswith("-zed") or "extension" in id:
        source.findings.add_fault("extension.id", f"the id {id!r} says Zed or extension", fix)
    if name.startswith("Zed ") or name.endswith(" Zed") or "extension" in name.lower():
        source.findings.add_fault(
            "extension.name", f"the name {name!r} says Zed or extension", fix.replace("id", "name")
        )


def extension_toml(manifest: Manifest) -> str:
    """Return the manifest of a Zed extension."""
    id = str(manifest.get("id"))
    lines = [
        f"id = {quote_toml(id)}",
        f"name = {quote_toml(str(manifest.get('name')))}",
        f"version = {quote_toml(str(manifest.get('version')))}",
        "schema_version = 1",
        f"description = {quote_toml(str(manifest.get('description')))}",
        f"authors = {_toml(list(manifest.get('authors') or []))}",
        f"repository = {quote_toml(str(manifest.get('repository')))}",
        "",
        f"[agent_servers.{id}]",
        f"name = {quote_toml(str(manifest.get('name')))}",
        f"icon = {quote_toml(f'icon/{id}.svg')}",
    ]
    for platform, target in targets_of(manifest).items():
        values = target if isinstance(target, dict) else {}
        lines += ["", f"[agent_servers.{id}.targets.{platform}]"]
        known: dict[str, Any] = {"archive": None, "cmd": None, "args": [], "sha256": None, "env": None}
        for key, otherwise in known.items():
            value = values.get(key, otherwise)
            if value is not None and not (key == "env" and not value):
                lines.append(f"{key} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def build_pypi(source: Source) -> Package:
    """Return a project that can be built and uploaded, so that uvx starts the agent."""
    findings, manifest = source.findings, source.manifest
    uvx = (manifest.get("distribution") or {}).get("uvx")
    if not isinstance(uvx, dict) or not isinstance(uvx.get("package"), str):
        if not any(fault.rule == "manifest.file" for fault in findings.faults):
            findings.add_fault("pypi.uvx", "agent.json has no distribution.uvx", 'add {"package": "NAME==VERSION"}')
        return Package(files={})
    name, version = split_spec("uvx", uvx["package"])
    name = name.partition("[")[0]
    if source.pyproject is None:
        findings.add_fault(
            "pypi.project", "there is no pyproject.toml", "docs/packaging.md shows one for an agent in one file"
        )
        return Package(files={})
    _check_project(source, name, version, str(uvx.get("cmd") or name))
    files = {
        "agent.json": _json(manifest),
        "publish.sh": publish.pypi_script(name, version, str(uvx.get("cmd") or name), source.folder).encode(),
    }
    return Package(files=files)


def _check_project(source: Source, name: str, version: str, command: str) -> None:
    findings = source.findings
    project = (source.pyproject or {}).get("project")
    if not isinstance(project, dict):
        findings.add_fault("pypi.project", "pyproject.toml has no [project]", "add name, version and scripts")
        return
    if _canonical(str(project.get("name", ""))) != _canonical(name):
        findings.add_fault(
            "pypi.name", f"the project is {project.get('name')!r}", f"uvx installs {name!r}: use one name"
        )
    if "version" not in project.get("dynamic", []) and project.get("version") != version:
        findings.add_fault(
            "pypi.version", f"the project is {project.get('version')}", f"uvx installs {version}: use one version"
        )
    if command not in project.get("scripts", {}):
        fix = f'add [project.scripts] {command} = "MODULE:main", or name another cmd in agent.json'
        findings.add_fault("pypi.script", f"uvx starts {command!r}, which the project does not install", fix)
    if "requires-python" not in project:
        findings.add_fault("pypi.python", "requires-python is missing", 'add requires-python = ">=3.11"')
    if "build-system" not in (source.pyproject or {}):
        fix = 'add [build-system] requires = ["setuptools>=77"], build-backend = "setuptools.build_meta"'
        findings.add_fault("pypi.build", "[build-system] is missing", fix)
    for key in ("description", "readme", "license"):
        if key not in project:
            findings.notes.append(f"pyproject.toml has no {key}; PyPI shows it")


BUILDERS: Mapping[str, Callable[[Source], Package]] = {
    REGISTRY: build_registry,
    ZED_EXTENSION: build_zed_extension,
    PYPI: build_pypi,
}


def _archive_files(source: Source) -> dict[str, bytes]:
    if not source.archives:
        return {}
    from dragoman.packaging.archives import sha256

    sums = "".join(f"{sha256(data)}  {name}\n" for name, data in sorted(source.archives.items()))
    archives = {f"archives/{name}": data for name, data in source.archives.items()}
    return {**archives, "archives/SHA256SUMS": sums.encode()}


def _readme(manifest: Manifest) -> str:
    name = manifest.get("name")
    return (
        f"# {name}\n\n{manifest.get('description')}\n\n"
        f"Install this extension in Zed, open the agent panel, and start a thread with {name}.\n\n"
        "To try it before it is published: run `zed: install dev extension` and choose this folder.\n"
    )


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{quote_toml(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    return quote_toml(str(value))


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
