"""The entries of an index as values. Reading ignores what it does not know, and one bad entry changes nothing for the
others: it is skipped with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.registry.environment import filter_variables
from dragoman.registry.fault import RegistryFault
from dragoman.registry.platforms import PLATFORMS

# The official index has 49 KB. Bytes.
MAX_INDEX = 16 * 1024 * 1024
# The largest official entry has 2.5 KB. Bytes.
MAX_ENTRY = 256 * 1024
# Words of an entry that are shown; a longer text is no name and no argument.
MAX_TEXT = 4096

# The versions of the index format that we read, by their first number.
FORMAT = "1"

NPX, UVX, BINARY = "npx", "uvx", "binary"
KINDS = (BINARY, NPX, UVX)

_ID = re.compile(r"[a-z][a-z0-9-]{0,63}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_NPM_SPEC = re.compile(r"((?:@[a-z0-9~][a-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*)(?:@([0-9A-Za-z.+-]+))?")
_PYPI_SPEC = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[([A-Za-z0-9._, -]*)\])?(?:(?:==|@)([0-9A-Za-z.+!-]+))?"
)
_DRIVE = re.compile(r"[A-Za-z]:")


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as a package of npm or PyPI."""

    kind: str  # NPX or UVX
    name: str
    version: str = ""  # "" where the entry names none
    extras: tuple[str, ...] = ()
    cmd: str = ""  # the executable; "" for the package's default
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}

    @property
    def spec(self) -> str:
        """The package with its version, as its package manager writes it."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        separator = "@" if self.kind == NPX else "=="
        return f"{self.name}{extras}" + (f"{separator}{self.version}" if self.version else "")


class Binary(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as an archive for one platform."""

    platform: str
    archive: str
    cmd: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    sha256: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One agent of an index."""

    id: str
    name: str
    version: str
    description: str = ""
    repository: str = ""
    website: str = ""
    authors: tuple[str, ...] = ()
    license: str = ""
    license_url: str = ""
    icon: str = ""
    packages: Mapping[str, Package] = {}  # by kind
    binaries: Mapping[str, Binary] = {}  # by platform
    preview: Entry | None = None  # the same agent at its preview version
    notes: tuple[str, ...] = ()  # what was left out of it, and why

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of distribution that it has."""
        return tuple(kind for kind in KINDS if kind in self.packages or (kind == BINARY and self.binaries))


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """The readable entries of one index by id, and those that were skipped with the reason."""

    entries: Mapping[str, Entry] = {}
    skipped: tuple[tuple[str, str], ...] = ()


class _BadEntry(Exception):
    """An entry breaks a rule; the message says which."""


def parse_index(data: bytes) -> Index:
    """Return the index; raise RegistryFault if it is none, or one of a newer format."""
    if len(data) > MAX_INDEX:
        raise RegistryFault("index", f"the index is larger than {MAX_INDEX >> 20} MiB")
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RegistryFault("index", f"the index is not readable: {error}") from None
    major = document.version.partition(".")[0]
    if major != FORMAT:
        raise RegistryFault(
            "index", f"the index has format {document.version[:20]}; this Dragoman reads {FORMAT}.x: update Dragoman"
        )
    entries: dict[str, Entry] = {}
    skipped: list[tuple[str, str]] = []
    for position, raw in enumerate(document.agents, 1):
        try:
            entry = parse_entry(raw)
            if entry.id in entries:
                raise _BadEntry("there is another entry with this id before it")
            entries[entry.id] = entry
        except _BadEntry as error:
            skipped.append((_id_of(raw) or f"entry {position}", str(error)))
    return Index(entries=entries, skipped=tuple(skipped))


class _Document(msgspec.Struct):
    agents: list[msgspec.Raw]
    version: str = "1.0.0"


def parse_entry(raw: bytes | msgspec.Raw) -> Entry:
    """Return one entry; raise _BadEntry with the rule that it breaks."""
    data = bytes(raw)
    if len(data) > MAX_ENTRY:
        raise _BadEntry(f"it is larger than {MAX_ENTRY >> 10} KiB")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _BadEntry(f"it is not readable: {error}") from None
    if not isinstance(value, dict):
        raise _BadEntry("it is not an object")
    return _build_entry(value)


def _build_entry(value: dict[str, Any]) -> Entry:
    id = _text(value, "id", required=True)
    if _ID.fullmatch(id) is None:
        raise _BadEntry("its id is not made of a-z, 0-9 and -")
    notes: list[str] = []
    distribution = value.get("distribution")
    if not isinstance(distribution, dict) or not distribution:
        raise _BadEntry("it has no distribution")
    unknown = sorted(str(kind) for kind in distribution if kind not in KINDS)
    notes += [f"unknown kind of distribution: {_CONTROL.sub('?', kind)[:40]}" for kind in unknown]
    preview = value.get("preview")
    entry = Entry(
        id=id,
        name=_text(value, "name", required=True),
        version=_text(value, "version", required=True),
        description=_text(value, "description"),
        authors=_texts(value.get("authors")),
        packages=dict(_read_packages(distribution, notes)),
        binaries=dict(_read_binaries(distribution.get(BINARY), notes)),
        repository=_text(value, "repository"),
        website=_text(value, "website"),
        license=_text(value, "license"),
        license_url=_text(value, "license_url"),
        icon=_text(value, "icon"),
    )
    if isinstance(preview, dict) and isinstance(preview.get("distribution"), dict):
        entry = msgspec.structs.replace(entry, preview=_read_preview(value, preview, notes))
    return msgspec.structs.replace(entry, notes=tuple(notes))


def _read_preview(value: dict[str, Any], preview: dict[str, Any], notes: list[str]) -> Entry | None:
    merged = {key: member for key, member in value.items() if key != "preview"}
    merged |= {key: preview[key] for key in ("version", "distribution") if key in preview}
    try:
        return _build_entry(merged)
    except _BadEntry as error:
        notes.append(f"preview: {error}")
        return None


def _read_packages(distribution: dict[str, Any], notes: list[str]) -> Iterator[tuple[str, Package]]:
    for kind, pattern in ((NPX, _NPM_SPEC), (UVX, _PYPI_SPEC)):
        value = distribution.get(kind)
        if value is None:
            continue
        try:
            if not isinstance(value, dict):
                raise _BadEntry("it is not an object")
            match = pattern.fullmatch(_text(value, "package", required=True))
            if match is None:
                raise _BadEntry("package is not a name with a version")
            groups = match.groups()
            extras = tuple(each.strip() for each in (groups[1] or "").split(",") if each.strip()) if kind == UVX else ()
            cmd = _check_command_name(_text(value, "cmd"))
            version = groups[-1] or ""
            yield (
                kind,
                Package(
                    kind=kind,
                    name=groups[0],
                    version="" if version == "latest" else version,
                    extras=extras,
                    cmd=cmd,
                    **_read_launch(value, kind, notes),
                ),
            )
        except _BadEntry as error:
            notes.append(f"{kind}: {error}")


def _read_binaries(value: Any, notes: list[str]) -> Iterator[tuple[str, Binary]]:
    if value is None:
        return
    if not isinstance(value, dict):
        notes.append("binary: it is not an object")
        return
    for platform, target in value.items():
        if platform not in PLATFORMS:
            continue  # a platform of tomorrow
        try:
            if not isinstance(target, dict):
                raise _BadEntry("it is not an object")
            sha256 = _text(target, "sha256")
            if sha256 and _SHA256.fullmatch(sha256) is None:
                raise _BadEntry("sha256 is not a SHA-256")
            yield (
                platform,
                Binary(
                    platform=platform,
                    archive=_check_url(_text(target, "archive", required=True)),
                    cmd=command_path(_text(target, "cmd", required=True)),
                    sha256=sha256.lower(),
                    **_read_launch(target, f"binary.{platform}", notes),
                ),
            )
        except _BadEntry as error:
            notes.append(f"binary.{platform}: {error}")


def _read_launch(value: dict[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    """Return args and env; variables that steer a process are left out."""
    env = value.get("env")
    pairs = {str(name): text for name, text in env.items() if isinstance(text, str)} if isinstance(env, dict) else {}
    allowed, refused = filter_variables(pairs)
    notes += [f"{where}: variable {_CONTROL.sub('?', name)[:80]} is not set: it steers processes" for name in refused]
    return {"args": _texts(value.get("args")), "env": allowed}


def command_path(cmd: str) -> str:
    """Return `cmd` of a binary as a relative path with slashes: `./` is optional, backslashes separate."""
    parts = [part for part in cmd.replace("\\", "/").split("/") if part != "."]
    if cmd.startswith("/") or _DRIVE.match(cmd) or not parts or any(part in ("", "..") for part in parts):
        raise _BadEntry("cmd leads out of the archive")
    return "/".join(parts)


def fixed_entry_fault(id: str, version: str, kind: str, cmd: str, env: Mapping[str, str]) -> str:
    """Return which rule of entries a lock breaks, which fixes the rest by hashes; "" if none."""
    if _ID.fullmatch(id) is None:
        return "its id is not made of a-z, 0-9 and -"
    if kind not in KINDS:
        return f"its kind is none of {', '.join(KINDS)}"
    if any(_CONTROL.search(text) for text in (version, cmd, *env.values())):
        return "it has control characters"
    if refused := filter_variables(env)[1]:
        return f"it sets {', '.join(refused)}, which steers processes"
    try:
        if kind == BINARY:
            command_path(cmd)
        else:
            _check_command_name(cmd)
    except _BadEntry as error:
        return str(error)
    return ""


def fixed_package_fault(kind: str, version: str, package: str, by: str, scripts: Sequence[str]) -> str:
    """Return which rule of packages a lock breaks: npm and uv would read more than names and versions; "" if none."""
    pattern, separator, voucher = (_NPM_SPEC, "@", "npm") if kind == NPX else (_PYPI_SPEC, "==", "pypi")
    match = pattern.fullmatch(package)
    if match is None or not match[match.re.groups] or not package.endswith(f"{separator}{version}"):
        return "its package is not a name with its version"
    if match[match.re.groups] != version:
        return "its package has another version"
    if by != voucher:
        return f"nobody but {voucher} vouches for its package"
    for name in scripts:
        found = pattern.fullmatch(name)
        if found is None or found[1] != name:
            return "its scripts are not names of packages"
    return ""


def _check_command_name(cmd: str) -> str:
    if "/" in cmd or "\\" in cmd or cmd.startswith("-"):
        raise _BadEntry("cmd is not the name of a command")
    return cmd


def _check_url(url: str) -> str:
    if not url.startswith(("https://", "http://")) or any(character.isspace() for character in url):
        raise _BadEntry("archive is not a URL")
    return url


def _text(value: dict[str, Any], key: str, *, required: bool = False) -> str:
    text = value.get(key, "")
    if not isinstance(text, str):
        if required:
            raise _BadEntry(f"{key} is not a text")
        return ""
    if required and not text.strip():
        raise _BadEntry(f"it has no {key}")
    if _CONTROL.search(text):
        raise _BadEntry(f"{key} has control characters")
    if len(text) > MAX_TEXT:
        raise _BadEntry(f"{key} is longer than {MAX_TEXT} characters")
    return text


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    texts = [each for each in value if isinstance(each, str)]
    if any("\0" in each or len(each) > MAX_TEXT for each in texts):
        raise _BadEntry("an argument has a zero byte or is too long")
    return tuple(texts)


def _id_of(raw: msgspec.Raw) -> str:
    try:
        value = msgspec.json.decode(raw) if len(bytes(raw)) <= MAX_ENTRY else {}
    except (msgspec.DecodeError, RecursionError):
        return ""
    id = value.get("id") if isinstance(value, dict) else None
    return id if isinstance(id, str) and _ID.fullmatch(id) else ""
