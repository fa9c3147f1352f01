"""Agents as archives: the hash of the entry, else that of the GitHub release, else the first use decides."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

import msgspec

from dragoman.registry.fault import RegistryFault
from dragoman.registry.fetch.address import shown_address
from dragoman.registry.index.entry import Binary, Entry
from dragoman.registry.install.plan import Plan, Wishes, Workshop
from dragoman.registry.platforms import missing_interpreter
from dragoman.registry.unpack.archive import unpack

# What GitHub says of one release. Bytes.
MAX_RELEASE = 4 * 1024 * 1024
_GITHUB = re.compile(r"https://github\.com/([^/]+/[^/]+)/releases/download/([^/]+)/([^/?#]+)")

REGISTRY, GITHUB, FIRST_USE = "registry", "github", "first-use"


def resolve_binary(entry: Entry, target: Binary, wishes: Wishes, workshop: Workshop, first_use: str = "") -> Plan:
    """Return the plan for an archive; `first_use` is the hash that was recorded when it was first used."""
    by, sha256, size = REGISTRY, target.sha256, None
    if not sha256:
        by, (sha256, size) = GITHUB, _github_digest(target.archive, workshop)
    if not sha256:
        by, sha256 = FIRST_USE, first_use
    return Plan(
        entry=entry,
        kind="binary",
        version=entry.version,
        by=by,
        digest=sha256,
        args=target.args,
        env=target.env,
        cmd=target.cmd,
        archive=target.archive,
        size=size,
        wishes=wishes,
    )


def _github_digest(url: str, workshop: Workshop) -> tuple[str, int | None]:
    """Return the SHA-256 and the size that GitHub gives for a file of a release; ("", None) if it says nothing."""
    match = _GITHUB.match(url)
    if match is None or workshop.is_offline:
        return "", None
    workshop.report("asking GitHub for the hash")
    address = f"https://api.github.com/repos/{match[1]}/releases/tags/{match[2]}"
    try:
        answer = workshop.http.get(address, limit=MAX_RELEASE)
        assets: list[dict[str, Any]] = msgspec.json.decode(answer.body or b"", type=_Release).assets
    except (RegistryFault, msgspec.DecodeError):
        return "", None
    from urllib.parse import unquote

    for asset in assets:
        if asset.get("name") == unquote(match[3]):
            digest = str(asset.get("digest") or "")
            size = asset.get("size")
            is_hash = re.fullmatch(r"sha256:[0-9a-f]{64}", digest) is not None
            return (digest.removeprefix("sha256:") if is_hash else ""), size if isinstance(size, int) else None
    return "", None


class _Release(msgspec.Struct):
    assets: list[dict[str, Any]] = []


def fetch_archive(plan: Plan, workshop: Workshop) -> tuple[str, str, int]:
    """Download the archive, unless it is kept; return its path, SHA-256 and size. Raise RegistryFault if it differs."""
    if given := workshop.find_given(plan.digest):
        sha256 = _sha256(given)
        if sha256 != plan.digest:
            raise RegistryFault("hash", f"{given}: the lock says SHA-256 {plan.digest}, the file has {sha256}")
        return given, sha256, os.path.getsize(given)
    os.makedirs(workshop.downloads, mode=0o700, exist_ok=True)
    name = plan.digest or f"first-{hashlib.sha256(plan.archive.encode()).hexdigest()}"
    kept = os.path.join(workshop.downloads, name)
    if plan.digest and os.path.exists(kept):
        if _sha256(kept) == plan.digest:
            return kept, plan.digest, os.path.getsize(kept)
        os.unlink(kept)
    part = f"{kept}.part"
    workshop.report(f"downloading {shown_address(plan.archive)}")
    sha256, size = workshop.http.download(plan.archive, part, progress=workshop.progress)
    if plan.digest and sha256 != plan.digest:
        os.unlink(part)
        raise RegistryFault(
            "hash",
            f"{shown_address(plan.archive)}: the {_voucher(plan.by)} says SHA-256 {plan.digest}, "
            f"the file has {sha256}; the entry or the file is wrong; nothing was kept",
            expected=plan.digest,
            found=sha256,
            by=plan.by,
        )
    final = os.path.join(workshop.downloads, sha256)
    os.replace(part, final)
    return final, sha256, size


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _voucher(by: str) -> str:
    return {REGISTRY: "registry", GITHUB: "GitHub release", FIRST_USE: "first use on this machine"}.get(by, by)


def install_binary(plan: Plan, workshop: Workshop, files: str, archive: str) -> list[str]:
    """Unpack the archive; return the command relative to the folder."""
    workshop.report("unpacking")
    unpack(archive, files, plan.cmd)
    program = os.path.join(files, *plan.cmd.split("/"))
    if loader := missing_interpreter(program):
        raise RegistryFault(
            "platform",
            f"{plan.entry.id} is linked against {loader}, which this system does not have (musl or NixOS?); "
            + ("try --with npx" if plan.entry.packages else "it has no other kind of distribution"),
        )
    return [plan.cmd]
