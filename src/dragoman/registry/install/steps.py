"""Carry out a plan: everything happens in a new folder, and one rename makes it the installed version.

Killed at any moment, what was installed before still runs: the folder is not listed until it is renamed, and the entry
of config.toml is switched last.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from dragoman.config import config_file
from dragoman.config.agent_choice import AgentFacts
from dragoman.config.config_file import NamedAgent
from dragoman.config.introductions import Introductions
from dragoman.config.private_files import file_lock, write_private
from dragoman.ids import now
from dragoman.registry.fault import RegistryFault
from dragoman.registry.index.entry import BINARY, NPX, Entry
from dragoman.registry.install.binary import FIRST_USE, fetch_archive, install_binary
from dragoman.registry.install.lock import LockedTarget, edit_lock, lock_entry
from dragoman.registry.install.manifest import encode_manifest, make_manifest
from dragoman.registry.install.npm import install_npm
from dragoman.registry.install.plan import Plan, Workshop
from dragoman.registry.install.pypi import install_pypi
from dragoman.registry.install.records import (
    FILES,
    MANIFEST_FILE,
    RECORD_FILE,
    UNFINISHED,
    Installed,
    Record,
    read_installed,
    remove_tree,
)
from dragoman.registry.platforms import this_machine


class Result(NamedTuple):
    """What an install did."""

    installed: Installed
    agent: NamedAgent
    facts: AgentFacts | None
    was_there: bool  # the same artifacts were installed before


def install(plan: Plan, name: str, workshop: Workshop) -> Result:
    """Install an agent under a name; raise RegistryFault. Other installs wait for the end of this one."""
    with _disk_faults(), file_lock(os.path.join(workshop.paths.agents, "install")):
        _remove_unfinished(workshop.paths.agents)
        archive, digest, size = fetch_archive(plan, workshop) if plan.kind == BINARY else ("", plan.digest, 0)
        plan = msgspec.structs.replace(plan, digest=digest)
        final = os.path.join(workshop.paths.agents, plan.entry.id, plan.folder_name)
        installed, facts = read_installed(final), None
        was_there = installed is not None
        if installed is None:
            installed, facts = _install_new(plan, name, workshop, final, archive, size)
        agent = activate(installed, name, workshop, plan.tree, plan.entry, sandbox=plan.wishes.sandbox)
        if facts is not None:
            Introductions(workshop.paths.introductions).note(name, agent.argv, facts)
        return Result(installed, agent, facts, was_there)


def _install_new(
    plan: Plan, name: str, workshop: Workshop, final: str, archive: str, size: int
) -> tuple[Installed, AgentFacts | None]:
    parent = os.path.dirname(final)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    new = os.path.join(parent, f"{UNFINISHED}{os.urandom(6).hex()}")
    files = os.path.join(new, FILES)
    os.mkdir(new, 0o700)
    try:
        os.mkdir(files, 0o755)
        if plan.kind == BINARY:
            relative = install_binary(plan, workshop, files, archive)
        else:
            relative = (install_npm if plan.kind == NPX else install_pypi)(plan, workshop, files)
        manifest = encode_manifest(make_manifest(files))
        facts = None
        if plan.wishes.tries:
            from dragoman.registry.install.trial import try_agent  # a whole client, which most commands do not need

            workshop.report("starting it once, to see that it answers")
            facts = try_agent(_absolute(relative, files, plan), plan.env, _readable(plan, new))
        record = _record(plan, _absolute(relative, os.path.join(final, FILES), plan), size, name)
        write_private(os.path.join(new, MANIFEST_FILE), manifest)
        write_private(os.path.join(new, RECORD_FILE), msgspec.json.format(msgspec.json.encode(record), indent=1))
        os.rename(new, final)
    finally:
        remove_tree(new)
    return Installed(final, record), facts


def _absolute(relative: list[str], files: str, plan: Plan) -> list[str]:
    """Return the command with absolute paths and the arguments of the entry."""
    program = relative[0]
    first = plan.node.path if program == "node" and plan.node is not None else os.path.join(files, program)
    return [first, *(os.path.join(files, path) for path in relative[1:]), *plan.args]


def _readable(plan: Plan, folder: str) -> list[str]:
    """Return the folders that the agent needs to start: its own, and those of its interpreter."""
    found = [folder]
    for program in (plan.node, plan.python):
        if program is not None:
            found += [os.path.dirname(os.path.dirname(path)) for path in (os.path.realpath(program.path), program.path)]
    return [path for path in dict.fromkeys(found) if path not in ("/", "/usr")]


def _record(plan: Plan, command: list[str], size: int, name: str) -> Record:
    return Record(
        id=plan.entry.id,
        version=plan.version,
        kind=plan.kind,
        by=plan.by,
        date=now(),
        command=tuple(command),
        env=plan.env,
        cmd=plan.cmd,
        args=plan.args,
        package=plan.package,
        integrity=plan.integrity,
        tree=hashlib.sha256(plan.tree).hexdigest() if plan.tree else "",
        archive=plan.archive,
        sha256=plan.digest if plan.kind == BINARY else "",
        size=size,
        python=plan.python.version if plan.python is not None else "",
        scripts=plan.runs_scripts,
        publisher=plan.publisher,
        registry=plan.source,
        name=name,
    )


def activate(
    installed: Installed, name: str, workshop: Workshop, tree: bytes = b"", entry: Entry | None = None, *,
    sandbox: bool = False,
) -> NamedAgent:  # fmt: skip
    """Make an installed version the agent of this name: the lock, then config.toml."""
    paths, record = workshop.paths, installed.record
    targets = {} if entry is None or record.kind != BINARY else _other_targets(entry)
    trees = {name: tree} if tree else {}
    edit_lock(paths.agents_lock, {name: lock_entry(installed, this_machine().platform, targets)}, trees)
    known = config_file.load_config(paths.config_file).agents.get(name)
    agent = NamedAgent(name=name, command=record.command[0], args=record.command[1:], env=record.env, sandbox=sandbox)
    if known is not None:  # settings of the user stay
        agent = msgspec.structs.replace(
            known,
            command=agent.command,
            args=agent.args,
            env={**record.env, **known.env},
            sandbox=known.sandbox or sandbox,
        )
    if agent != known:
        config_file.add_entry(paths.config_file, agent, replaces=known is not None)
    return agent


def _other_targets(entry: Entry) -> dict[str, LockedTarget]:
    return {
        platform: LockedTarget(archive=target.archive, sha256=target.sha256)
        for platform, target in entry.binaries.items()
        if target.sha256
    }


def first_use_hash(agents: Iterator[Installed], archive: str) -> str:
    """Return the hash that was recorded when an archive without a voucher was first used; "" if it never was."""
    return next(
        (each.record.sha256 for each in agents if each.record.archive == archive and each.record.by == FIRST_USE), ""
    )


def _remove_unfinished(agents: str) -> None:
    """Remove what an install that was killed left behind; the lock is held, so nobody works in it."""
    for id in os.listdir(agents):
        folder = os.path.join(agents, id)
        if os.path.isdir(folder):
            for name in os.listdir(folder):
                if name.startswith(UNFINISHED):
                    remove_tree(os.path.join(folder, name))


_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG}


@contextmanager
def _disk_faults() -> Iterator[None]:
    """Turn errors of the disk into a fault that says where."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK:
            raise
        where = error.filename or "the disk"
        raise RegistryFault("disk", f"{where}: {error.strerror}; nothing half-made was left") from None
