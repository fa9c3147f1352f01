"""Checks of the repository in an agent's working tree, without git, which would follow what the agent configured."""

from __future__ import annotations

import os
import stat

from dragoman.workspace.git import GitFailed

# Files with which a repository names folders of objects or references outside itself.
_EXTERNAL_REFERENCE_FILES = frozenset({"commondir", "objects/info/alternates", "objects/info/http-alternates"})

# Git makes folders only as deep as the names of branches and submodules have parts.
_MAX_DEPTH = 100
# git gc packs objects from 7,000 on; to look at this many files takes seconds, at each checkpoint.
_MAX_ENTRIES = 1_000_000

# A branch is one short line.
_MAX_HEAD = 1000


def check_repository(tree: str) -> None:
    """Raise GitFailed unless `.git` of a working tree has all that it uses: git would push what a link leads to."""
    top = os.path.join(tree, ".git")
    try:
        if not stat.S_ISDIR(os.lstat(top).st_mode):
            raise GitFailed(f"the repository in {tree} is not used", "its .git is no folder")
        _check_folders(top)
    except OSError as error:
        raise GitFailed(f"the repository in {tree} cannot be read", error.strerror or str(error)) from None


def _check_folders(top: str) -> None:
    """Refuse links, pipes and names of other folders anywhere in a repository, and one of too many levels or files."""
    waiting, count = [""], 0
    while waiting:
        inner = waiting.pop()
        if inner.count("/") > _MAX_DEPTH:
            raise _refusal(f".git has more than {_MAX_DEPTH} levels of folders")
        with os.scandir(os.path.join(top, inner)) as entries:
            for entry in entries:
                count += 1
                name = f"{inner}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{name}/")
                elif not entry.is_file(follow_symlinks=False):
                    raise _refusal(f".git/{name} is a link or a device")
                elif name in _EXTERNAL_REFERENCE_FILES:
                    raise _refusal(f".git/{name} names another folder")
                if count > _MAX_ENTRIES:
                    raise _refusal(f".git has more than {_MAX_ENTRIES} files; run git gc in it")


def _refusal(reason: str) -> GitFailed:
    shown = reason.encode("utf-8", "replace").decode()  # the agent chose the names
    return GitFailed("the repository of the working tree is not used", shown)


def current_branch(tree: str) -> str:
    """Return the branch of a working tree; "" if it is on none."""
    try:
        fd = os.open(os.path.join(tree, ".git", "HEAD"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with open(fd, encoding="utf-8", errors="replace") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        text = file.read(_MAX_HEAD).strip()
    name = text.removeprefix("ref: refs/heads/")
    return name if name != text and name.isprintable() and " " not in name else ""
