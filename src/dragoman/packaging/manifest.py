"""agent.json, the author's description of an agent, in the form of the official registry; and its rules.

The rules are those of the registry's own checks that need no network, and those that make an entry useless for editors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from dragoman.packaging.faults import Findings

Manifest = dict[str, Any]

PLATFORMS = (
    "darwin-aarch64",
    "darwin-x86_64",
    "linux-aarch64",
    "linux-x86_64",
    "windows-aarch64",
    "windows-x86_64",
)
KINDS = ("binary", "npx", "uvx")
ARCHIVES = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".zip")

_SYSTEMS = ("darwin", "linux", "windows")
_INSTALLERS = (".dmg", ".pkg", ".deb", ".rpm", ".msi", ".appimage")
_REQUIRED = ("id", "name", "version", "description", "distribution")
_TARGET_MEMBERS = frozenset({"archive", "cmd", "args", "env", "sha256"})
_PACKAGE_MEMBERS = frozenset({"package", "cmd", "args", "env"})

# Variables that steer processes; the registry's checks and careful clients remove them.
_RESERVED = re.compile(
    r"(?:PATH|PATHEXT|HOME|TMP|TEMP|TMPDIR|CI|COMSPEC|WINDIR|SystemRoot|PYTHONHOME|PYTHONPATH|SSL_CERT_\w+|REQUESTS_CA_BUNDLE)\Z"
    r"|(?:LD|DYLD|NODE|NPM|PIP|PYTHON|UV|XDG|SSH|GITHUB|ACTIONS|RUNNER|AWS|AZURE|GCLOUD|GOOGLE)_"
)


def check_manifest(manifest: Manifest, findings: Findings, file: str = "agent.json") -> None:
    """Check a manifest as the registry does. `file` is where its author writes it."""
    for name in _REQUIRED:
        if not manifest.get(name):
            findings.add_fault(f"manifest.{name}", f"{name} is missing", f"add {name} to {file}")
    _check_texts(manifest, findings, file)
    distribution = manifest.get("distribution")
    if not isinstance(distribution, dict):
        if distribution:
            findings.add_fault("manifest.distribution", "distribution is not an object", f"use {', '.join(KINDS)}")
        return
    version = str(manifest.get("version", ""))
    _check_distribution(distribution, version, findings, "distribution")
    _check_preview(manifest.get("preview"), findings)
    _note_editors(distribution, findings)


def check_version(version: str, findings: Findings) -> None:
    """Check that a version begins with three numbers."""
    if re.match(r"\d+\.\d+\.\d+", version) is None:
        fix = "begin it with three numbers, such as 1.0.0"
        findings.add_fault("manifest.version", f"the version is {version!r}", fix)


def targets_of(manifest: Manifest) -> dict[str, Any]:
    """Return the binary targets by platform."""
    distribution = manifest.get("distribution")
    targets = distribution.get("binary") if isinstance(distribution, dict) else None
    return targets if isinstance(targets, dict) else {}


def archive_name(url: str) -> str:
    """Return the file name at the end of an address."""
    return unquote(urlsplit(url).path.rpartition("/")[2])


def _check_texts(manifest: Manifest, findings: Findings, file: str) -> None:
    for name in ("id", "name", "version", "description", "license"):
        if name in manifest and not isinstance(manifest[name], str):
            findings.add_fault(f"manifest.{name}", f"{name} is not a text", "write it in quotes")
            return
    if manifest.get("id") and re.fullmatch(r"[a-z][a-z0-9-]*", manifest["id"]) is None:
        fix = "use a-z, 0-9 and -, beginning with a letter"
        findings.add_fault("manifest.id", f"the id is {manifest['id']!r}", fix)
    if manifest.get("version"):
        check_version(manifest["version"], findings)
    for name in ("repository", "website", "license_url"):
        value = manifest.get(name)
        if value is not None and not _is_https(value):
            findings.add_fault(f"manifest.{name}", f"{name} is {value!r}", "give an address that begins with https://")
    authors = manifest.get("authors")
    if authors is not None and not _are_texts(authors):
        findings.add_fault("manifest.authors", "authors is not a list of texts", 'write ["Your Name"]')
    for name in ("repository", "authors", "license"):
        if not manifest.get(name):
            findings.notes.append(f"{file} has no {name}; users look for it")


def _check_distribution(distribution: Mapping[str, Any], version: str, findings: Findings, where: str) -> None:
    for kind in distribution.keys() - set(KINDS):
        findings.add_fault("manifest.distribution", f"{where}.{kind} is unknown", f"use {', '.join(KINDS)}")
    binary = distribution.get("binary")
    if binary is not None:
        _check_binary(binary, version, findings)
    for kind in ("npx", "uvx"):
        if kind in distribution:
            _check_package(kind, distribution[kind], version, findings)


def _check_binary(binary: Any, version: str, findings: Findings) -> None:
    if not isinstance(binary, dict) or not binary:
        findings.add_fault("binary.targets", "distribution.binary has no targets", f"add {PLATFORMS[3]} and others")
        return
    for platform in binary.keys() - set(PLATFORMS):
        findings.add_fault("binary.platform", f"{platform!r} is no platform", f"use one of {', '.join(PLATFORMS)}")
    present = {platform.partition("-")[0] for platform in binary}
    missing = [system for system in _SYSTEMS if system not in present]
    if missing:
        fix = "build for them, or use npx or uvx instead of binary"
        findings.add_fault("binary.systems", f"there is no target for {', '.join(missing)}", fix)
    for platform, target in binary.items():
        if not isinstance(target, dict):
            findings.add_fault("binary.target", f"{platform} is not an object", "give archive and cmd")
            continue
        _check_members(platform, target, _TARGET_MEMBERS, findings)
        _check_archive(platform, target, version, findings)
        _check_cmd(platform, target.get("cmd"), findings)


def _check_archive(platform: str, target: Mapping[str, Any], version: str, findings: Findings) -> None:
    url = target.get("archive")
    if not _is_https(url):
        fix = "give the https address of the release file"
        findings.add_fault("binary.archive", f"{platform} has the archive {url!r}", fix)
        return
    name = archive_name(str(url)).lower()
    if name.endswith(_INSTALLERS):
        fix = f"publish {', '.join(ARCHIVES)} or the bare program"
        findings.add_fault("binary.archive", f"{platform} is an installer ({name})", fix)
    if "/latest/" in str(url):
        findings.add_fault("binary.latest", f"the archive of {platform} is /latest/", f"name the version: /v{version}/")
    elif (found := version_in_url(str(url))) and found != version:
        findings.add_fault(
            "binary.version", f"the archive of {platform} is of {found}", f"use {version}, the version of agent.json"
        )
    digest = target.get("sha256")
    if digest is not None and re.fullmatch(r"[0-9a-fA-F]{64}", str(digest)) is None:
        findings.add_fault("binary.sha256", f"the sha256 of {platform} is not 64 hex digits", "use sha256sum FILE")


def version_in_url(url: str) -> str:
    """Return the version that the address of a release names, with three numbers; "" if it names none."""
    if match := re.search(r"/(?:download|releases)/v?([\d.]+)/", url):
        return ".".join([*match[1].split("."), "0", "0"][:3])
    match = re.search(r"/-/[^/]+-(\d+\.\d+\.\d+)\.tgz", url)
    return match[1] if match else ""


def _check_cmd(platform: str, cmd: Any, findings: Findings) -> None:
    if not isinstance(cmd, str) or not cmd:
        findings.add_fault("binary.cmd", f"{platform} has no cmd", "give the program in the archive, such as ./agent")
        return
    parts = cmd.replace("\\", "/").split("/")
    if ".." in parts or cmd.startswith("/") or ":" in parts[0]:
        findings.add_fault("binary.cmd", f"the cmd of {platform} leaves the archive ({cmd})", "use ./NAME")
    elif not cmd.startswith("./") and cmd not in ("node",):
        findings.notes.append(f"Zed refuses the cmd of {platform} ({cmd}); write ./{cmd}")


def _check_package(kind: str, package: Any, version: str, findings: Findings) -> None:
    if not isinstance(package, dict) or not isinstance(package.get("package"), str) or not package["package"]:
        fix = f"name it with its version: NAME{_at(kind)}{version}"
        findings.add_fault(f"{kind}.package", f"{kind} has no package", fix)
        return
    _check_members(kind, package, _PACKAGE_MEMBERS, findings)
    spec = package["package"]
    name, found = split_spec(kind, spec)
    wanted = f"{name}{_at(kind)}{version}"
    if found == "latest" or not found:
        findings.add_fault(f"{kind}.latest", f"{kind} installs {spec}, which changes", f"name the version: {wanted}")
    elif found != version:
        findings.add_fault(f"{kind}.version", f"{kind} installs {found}, agent.json is {version}", f"use {wanted}")


def split_spec(kind: str, spec: str) -> tuple[str, str]:
    """Return name and version of a package; "" if it names no exact version."""
    if kind == "npx":
        name, _, version = spec[1:].partition("@")
        return spec[:1] + name, version
    match = re.fullmatch(r"([^=@<>!~]+)(?:==|@)([^,]+)", spec)
    return (match[1], match[2]) if match else (re.split(r"[=@<>!~]", spec)[0], "")


def _at(kind: str) -> str:
    return "@" if kind == "npx" else "=="


def _check_members(where: str, value: Mapping[str, Any], known: frozenset[str], findings: Findings) -> None:
    for name in sorted(value.keys() - known):
        fix = f"the registry takes {', '.join(sorted(known))}"
        findings.add_fault("manifest.member", f"{where} has {name!r}", fix)
    if not _are_texts(value.get("args", [])):
        findings.add_fault("manifest.args", f"args of {where} is not a list of texts", 'write ["--acp"]')
    env = value.get("env", {})
    if not isinstance(env, dict) or not _are_texts(list(env.values())):
        findings.add_fault("manifest.env", f"env of {where} is not an object of texts", 'write {"NAME": "value"}')
        return
    for name in env:
        if _RESERVED.match(name):
            findings.add_fault("manifest.env", f"{where} sets {name}, which steers processes", "use a name of your own")


def _check_preview(preview: Any, findings: Findings) -> None:
    if preview is None:
        return
    if not isinstance(preview, dict) or preview.keys() != {"version", "distribution"}:
        findings.add_fault("manifest.preview", "preview has other members", "give it version and distribution only")
        return
    check_version(str(preview["version"]), findings)
    kinds = preview["distribution"].keys() if isinstance(preview["distribution"], dict) else ()
    if not kinds or not set(kinds) <= {"npx", "uvx"}:
        findings.add_fault("manifest.preview", "preview has no npx or uvx", "a preview is an npx or uvx package")


def _note_editors(distribution: Mapping[str, Any], findings: Findings) -> None:
    if set(distribution) == {"uvx"}:
        findings.notes.append("Zed does not show agents that have only uvx; npx or binary would be shown")
    for kind in ("npx", "uvx"):
        if isinstance(distribution.get(kind), dict) and "cmd" in distribution[kind]:
            findings.notes.append(f"Zed ignores the cmd of {kind}; it starts the package's default program")


def _is_https(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"https://[^\s/]+(?:/\S*)?", value) is not None


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def platforms_without_sha256(manifest: Manifest) -> Iterator[str]:
    """Return the targets whose archive nobody vouches for."""
    for platform, target in targets_of(manifest).items():
        if isinstance(target, dict) and not target.get("sha256"):
            yield platform
