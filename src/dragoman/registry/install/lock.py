"""agents.lock: the exact artifacts of agents, for a team or another machine; and the lists of packages beside it."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.config.config_file import NAME_PATTERN, NAME_RULE, quote_toml
from dragoman.config.private_files import file_lock, read_bytes, write_private
from dragoman.errors import ConfigFault
from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import UVX, fixed_entry_fault
from dragoman.registry.install.npm_lock import read_lock
from dragoman.registry.install.pypi_list import check_list
from dragoman.registry.install.records import MANIFEST_FILE, MAX_MANIFEST, Installed

VERSION = 1
TREES = ".d"  # agents.lock.d: the lists of packages
_TREE_NAMES = {"npx": "package-lock.json", "uvx": "requirements.txt"}


class LockedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The archive for one platform."""

    archive: str
    sha256: str
    size: int = 0


class LockedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """The artifacts of one agent."""

    id: str
    version: str
    kind: str
    by: str
    cmd: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    package: str = ""
    integrity: str = ""
    tree: str = ""
    python: str = ""
    scripts: tuple[str, ...] = ()
    registry: str = ""
    manifest: str = ""  # SHA-256 of the manifest; only in the lock of this machine
    targets: Mapping[str, LockedTarget] = {}


class _Document(msgspec.Struct):
    version: int
    agents: dict[str, LockedAgent] = {}


def load_lock(path: str) -> dict[str, LockedAgent]:
    """Return the agents of a lock; {} if there is no file. Raise ConfigFault."""
    try:
        data = read_bytes(path)
        if data is None:
            return {}
        document = msgspec.convert(tomllib.loads(data.decode()), _Document)
    except OSError as error:
        raise ConfigFault([f"{path}: {error.strerror or error}"]) from None
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigFault([f"{path}: {error}"]) from None
    if document.version != VERSION:
        raise ConfigFault([f"{path}: version {document.version}; this Dragoman reads version {VERSION}"])
    for name, entry in document.agents.items():
        fault = fixed_entry_fault(entry.id, entry.version, entry.kind, entry.cmd, entry.env)
        if fault or NAME_PATTERN.fullmatch(name) is None:  # anybody may have written it
            raise ConfigFault([f"{path}: agents.{name[:64]!r}: {fault or NAME_RULE}"])
    return document.agents


def lock_entry(installed: Installed, platform: str, others: Mapping[str, LockedTarget] | None = None) -> LockedAgent:
    """Return the lock of an installed agent; `others` are its archives for other platforms."""
    record = installed.record
    manifest = read_bytes(os.path.join(installed.folder, MANIFEST_FILE), MAX_MANIFEST) or b""
    targets = dict(others or {})
    if record.archive:
        targets[platform] = LockedTarget(archive=record.archive, sha256=record.sha256, size=record.size)
    return LockedAgent(
        id=record.id,
        version=record.version,
        kind=record.kind,
        by=record.by,
        cmd=record.cmd,
        args=record.args,
        env=record.env,
        package=record.package,
        integrity=record.integrity,
        tree=record.tree,
        python=record.python,
        scripts=record.scripts,
        registry=record.registry,
        manifest=hashlib.sha256(manifest).hexdigest(),
        targets=targets,
    )


def edit_lock(path: str, changes: Mapping[str, LockedAgent | None], trees: Mapping[str, bytes]) -> None:
    """Set or remove agents of a lock, with their lists of packages."""
    with file_lock(path):
        agents = load_lock(path)
        for name, entry in changes.items():
            if entry is None:
                agents.pop(name, None)
                _remove_trees(path, name)
            else:
                agents[name] = entry
        for name, tree in trees.items():
            entry = agents[name]
            _remove_trees(path, name)
            write_private(_tree_path(path, name, entry.kind), tree)
        write_private(path, render_lock(agents).encode())


def read_tree(path: str, name: str, entry: LockedAgent) -> bytes:
    """Return the list of packages of a locked agent; raise RegistryFault if it is not the one that was locked.

    Anybody may have written both, so the list is also held to what npm and uv write by themselves.
    """
    file = _tree_path(path, name, entry.kind)
    data = read_bytes(file)
    if data is None:
        raise RegistryFault("hash", f"{file} is missing; it belongs to {path}")
    found = hashlib.sha256(data).hexdigest()
    if found != entry.tree:
        raise RegistryFault("hash", f"{file}: the lock says SHA-256 {entry.tree}, the file has {found}")
    if entry.kind == UVX:
        check_list(data, file)
    else:
        read_lock(data)
    return data


def render_lock(agents: Mapping[str, LockedAgent]) -> str:
    """Return the text of a lock, always the same for the same agents."""
    lines = ["# Written by `dragoman agents`; compare with: dragoman agents lock --check", f"version = {VERSION}"]
    for name in sorted(agents):
        entry = agents[name]
        lines += ["", f"[agents.{name}]"]
        for field in msgspec.structs.fields(entry):
            value = getattr(entry, field.name)
            if field.name != "targets" and (field.required or value != field.default) and value:
                lines.append(f"{field.name} = {_render(value)}")
        for platform in sorted(entry.targets):
            target = entry.targets[platform]
            lines += [f"[agents.{name}.targets.{platform}]"]
            lines += [f"{key} = {_render(value)}" for key, value in msgspec.structs.asdict(target).items() if value]
    return "\n".join(lines) + "\n"


def _render(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(quote_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{quote_toml(key)} = {quote_toml(text)}' for key, text in value.items())} }}"
    return quote_toml(str(value))


def _tree_path(path: str, name: str, kind: str) -> str:
    return os.path.join(path + TREES, f"{name}.{_TREE_NAMES[kind]}")


def _remove_trees(path: str, name: str) -> None:
    for kind in _TREE_NAMES:
        try:
            os.unlink(_tree_path(path, name, kind))
        except FileNotFoundError:
            pass
