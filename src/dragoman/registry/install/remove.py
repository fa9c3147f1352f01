"""Remove an installed agent: its folders, its lock, its entry; refused while a process uses it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from dragoman.config import config_file
from dragoman.config.introductions import Introductions
from dragoman.config.paths import UserPaths
from dragoman.config.private_files import file_lock
from dragoman.registry.install.lock import edit_lock
from dragoman.registry.install.records import Installed, all_installed, configured_installs, remove_tree


def processes_using(folders: Iterable[str]) -> list[int]:
    """Return the processes that were started from these folders; [] where the system does not tell."""
    marks = [os.fsencode(folder.rstrip(os.sep) + os.sep) for folder in folders]
    found = []
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for number in numbers:
        try:
            with open(f"/proc/{number}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue  # it has ended, or belongs to another user
        if number != os.getpid() and any(word.startswith(mark) for word in words for mark in marks):
            found.append(number)
    return found


def removable(name: str, paths: UserPaths) -> list[Installed]:
    """Return the versions that belong to this name alone."""
    configured = configured_installs(paths.agents, config_file.load_config(paths.config_file).agents)
    own = configured.get(name)
    if own is None:
        return []
    others = {each.folder for other, each in configured.items() if other != name}
    shares_id = any(each.record.id == own.record.id for other, each in configured.items() if other != name)
    versions = [own] if shares_id else list(all_installed(paths.agents, own.record.id))
    return [each for each in versions if each.folder not in others]


def remove_agent(name: str, paths: UserPaths, *, keep_files: bool = False) -> list[str]:
    """Remove an agent from config.toml and the lock, then its folders; return the folders."""
    with file_lock(os.path.join(paths.agents, "install")):
        versions = [] if keep_files else removable(name, paths)
        config_file.remove_entry(paths.config_file, "agents", name)
        edit_lock(paths.agents_lock, {name: None}, {})
        Introductions(paths.introductions).forget(name)
        for each in versions:
            remove_tree(each.folder)
        for parent in {os.path.dirname(each.folder) for each in versions}:
            if not os.listdir(parent):
                os.rmdir(parent)
    return [each.folder for each in versions]
