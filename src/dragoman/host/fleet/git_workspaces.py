"""Working trees of sessions on Git repositories: made at whichever node runs the session, from its last checkpoint.

A checkpoint is a commit of everything that is not ignored, pushed after each turn. No git command of the host reads the
configuration of a working tree: its agent may have changed it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from dragoman.host.fleet.agent_repository import check_repository, current_branch
from dragoman.host.fleet.places import GitSource
from dragoman.ids import new_id
from dragoman.workspace.git import GitFailed, forget_repositories, git, list_repositories

# Where checkpoints are pushed. With the epoch of the owner, a late push of a former owner changes nothing.
CHECKPOINTS = "refs/dragoman/{session}/{epoch}"

# How many names of what is not in a checkpoint are told; the others are counted.
MAX_LEFT_OUT = 50

# Ways to a repository that do not start a program of the address's choice. A host that cannot be asked must not wait.
_ENVIRONMENT = {"GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}


class Restored(msgspec.Struct, frozen=True):
    """A working tree that is ready, and what it was made from: nothing new, a checkpoint, a branch, or the start."""

    path: str
    source: str = "kept"  # kept, checkpoint, branch, start
    commit: str = ""


class Checkpoint(msgspec.Struct, frozen=True):
    """A commit of a working tree, and what is not in it."""

    commit: str
    ref: str
    left_out: tuple[str, ...] = ()
    more_left_out: int = 0  # how many names are not listed


class GitWorkspaces:
    """The working trees of one node, in one folder, with a bare copy of each repository."""

    def __init__(self, folder: str, *, has_checkpoints: bool = True) -> None:
        self._folder = folder
        self.has_checkpoints = has_checkpoints
        self._locks: dict[str, asyncio.Lock] = {}  # by repository: git cannot fetch twice at the same time

    def path_of(self, session: str) -> str:
        """Return the folder of a session."""
        return os.path.join(self._folder, "sessions", _safe(session))

    async def prepare(self, session: str, source: GitSource, *, is_current: bool) -> Restored:
        """Return the working tree of a session. What is there is kept if this node ran the session last."""
        path = self.path_of(session)
        if os.path.isdir(path):
            if is_current:
                return Restored(path)
            # Another node went on since. Nothing is deleted: somebody may miss what was never in a checkpoint.
            await asyncio.to_thread(os.rename, path, f"{path}.before-{new_id()[:8]}")
        async with self._lock_of(source.url):
            copy = await self._fetch(source)
            kind, commit, branch = await self._find_start(copy, session, source)
            await self._clone(copy, session, source, path, commit, branch)
        return Restored(path, kind, commit)

    async def checkpoint(self, session: str, source: GitSource, epoch: int) -> Checkpoint | None:
        """Push everything of a working tree that is not ignored. None: nothing changed since the last time."""
        path = self.path_of(session)
        copy = self._copy_of(source.url)
        last, ref = f"refs/checkpoints/{_safe(session)}", CHECKPOINTS.format(session=_safe(session), epoch=epoch)
        async with self._lock_of(source.url):
            # The commits of the agent are in its own repository; fetching runs nothing that it configured.
            await asyncio.to_thread(check_repository, path)
            await _git(copy, "fetch", "--quiet", "--no-tags", path, f"+HEAD:{last}-head")
            await asyncio.to_thread(check_repository, path)  # the agent may have changed it meanwhile
            head = await _read(copy, "rev-parse", f"{last}-head")
            branch = await asyncio.to_thread(current_branch, path)
            commit, left_out = await self._snapshot(copy, session, path, head, branch)
            if await _same_commit(copy, commit, last):
                return None
            await _git(copy, "push", "--quiet", "--force", source.url, f"{commit}:{ref}")
            await _git(copy, "update-ref", last, commit)
            await self._delete_older(copy, session, source.url, epoch)
        return Checkpoint(commit, ref, tuple(left_out[:MAX_LEFT_OUT]), max(0, len(left_out) - MAX_LEFT_OUT))

    async def remove(self, session: str, source: GitSource) -> None:
        """Delete the working tree and the checkpoints of a session."""
        await asyncio.to_thread(shutil.rmtree, self.path_of(session), True)
        copy = self._copy_of(source.url)
        if os.path.isdir(copy):
            with suppress(GitFailed):
                await self._delete_older(copy, session, source.url, None)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _copy_of(self, url: str) -> str:
        return os.path.join(self._folder, "repositories", hashlib.sha256(url.encode()).hexdigest()[:20])

    def _lock_of(self, url: str) -> asyncio.Lock:
        return self._locks.setdefault(url, asyncio.Lock())

    async def _fetch(self, source: GitSource) -> str:
        """Bring the bare copy of a repository up to date; return its folder."""
        copy = self._copy_of(source.url)
        if not os.path.isdir(copy):
            await asyncio.to_thread(os.makedirs, os.path.dirname(copy), mode=0o700, exist_ok=True)
            await _git(os.path.dirname(copy), "init", "--quiet", "--bare", "--", copy)
        try:
            await _git(copy, "fetch", "--quiet", "--prune", "--force", source.url, "refs/heads/*:refs/remotes/origin/*")
        except GitFailed as error:
            raise GitFailed(f"the repository {source.url} cannot be fetched", error.message) from None
        return copy

    async def _find_start(self, copy: str, session: str, source: GitSource) -> tuple[str, str, str]:
        """Return what a working tree is made from, its commit, and the branch to be on."""
        branch = _branch(session)
        known = await _list_checkpoints(copy, session, source.url)
        if known:
            newest, last = known[max(known)], f"refs/checkpoints/{_safe(session)}"
            await _git(copy, "fetch", "--quiet", "--no-tags", source.url, f"+{newest}:{last}")
            commit = await _read(copy, "rev-parse", last)
            message = await _read(copy, "log", "-1", "--format=%(trailers:key=Dragoman-Branch,valueonly)", commit)
            return "checkpoint", commit, message if await _is_branch(copy, message) else branch
        pushed = await _read(copy, "for-each-ref", "--format=%(objectname)", f"refs/remotes/origin/{branch}")
        if pushed:
            return "branch", pushed, branch
        try:
            await _git(copy, "fetch", "--quiet", "--no-tags", source.url, source.ref or "HEAD")
        except GitFailed as error:
            raise GitFailed(f"{source.url} has no {source.ref or 'commit'}", error.message) from None
        return "start", await _read(copy, "rev-parse", "FETCH_HEAD^{commit}"), branch

    async def _clone(self, copy: str, session: str, source: GitSource, path: str, commit: str, branch: str) -> None:
        """Make the working tree beside its place and then rename it: half of one is never used."""
        making = f"{path}.new-{new_id()[:8]}"
        await asyncio.to_thread(os.makedirs, os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            # Objects are hard links; those of a checkpoint come with them.
            await _git(copy, "clone", "--quiet", "--no-checkout", "--", copy, making)
            await _git(making, "remote", "set-url", "origin", source.url)
            await _git(making, "fetch", "--quiet", copy, "+refs/remotes/origin/*:refs/remotes/origin/*")
            is_checkpoint = await _read(making, "log", "-1", "--format=%(trailers:key=Dragoman-Session)", commit)
            base = f"{commit}^" if is_checkpoint else commit
            await _git(making, "checkout", "--quiet", "-B", branch, base)
            if is_checkpoint:
                await _git(making, "read-tree", "-u", "--reset", commit)
                await _git(making, "reset", "--quiet", "--mixed", base)
            await asyncio.to_thread(os.rename, making, path)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, making, True)
            raise

    async def _snapshot(self, copy: str, session: str, path: str, head: str, branch: str) -> tuple[str, list[str]]:
        """Return a commit of a working tree on top of its own last one, and what is not in it."""
        # The index is kept: it knows which files did not change.
        env = {"GIT_INDEX_FILE": os.path.join(copy, f"index-{_safe(session)}"), "GIT_DIR": copy, "GIT_WORK_TREE": path}
        await forget_repositories(path, env)
        await _git(path, "add", "--all", "--", ".", env=env)
        tree = await _read(path, "write-tree", env=env)
        text = f"checkpoint\n\nDragoman-Session: {_safe(session)}\nDragoman-Branch: {branch or _branch(session)}\n"
        commit = await _read(copy, "commit-tree", tree, "-p", head, "-m", text)
        ignored = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        left_out = _names(await _git(path, *ignored, env=env))
        left_out += [f"{name}/" for name in await list_repositories(path, env)]
        return commit, left_out + await _other_refs(copy, path, branch)

    async def _delete_older(self, copy: str, session: str, url: str, epoch: int | None) -> None:
        """Delete the checkpoints of former owners; of everybody if `epoch` is None."""
        known = await _list_checkpoints(copy, session, url)
        if older := [ref for at, ref in known.items() if epoch is None or at < epoch]:
            with suppress(GitFailed):  # somebody else was faster
                await _git(copy, "push", "--quiet", url, "--delete", *older)


async def _is_branch(copy: str, name: str) -> bool:
    """Tell whether git takes a name as one of a branch."""
    if not name or name.startswith("-"):
        return False
    try:
        await _git(copy, "check-ref-format", f"refs/heads/{name}")
    except GitFailed:
        return False
    return True


async def _list_checkpoints(copy: str, session: str, url: str) -> dict[int, str]:
    """Return the checkpoints of a session by epoch."""
    pattern = CHECKPOINTS.format(session=_safe(session), epoch="*")
    refs = [line.split("\t")[-1] for line in (await _read(copy, "ls-remote", url, pattern)).splitlines()]
    return {int(ref.rpartition("/")[2]): ref for ref in refs if ref.rpartition("/")[2].isdigit()}


async def _other_refs(copy: str, path: str, current: str) -> list[str]:
    """Return the branches and stashes of a working tree that nobody has pushed, without the current branch."""
    shown = "--format=%(objectname)\t%(refname)"
    pushed = (await _read(copy, "for-each-ref", shown, "refs/remotes/origin")).replace("remotes/origin", "heads")
    found = await _read(copy, "ls-remote", path, "refs/heads/*", "refs/stash")
    refs = [line.split("\t")[1] for line in found.splitlines() if line not in pushed.splitlines()]
    names = [ref.removeprefix("refs/heads/") for ref in refs]
    return ["stashes" if name == "refs/stash" else f"branch {name}" for name in names if name != current]


async def _same_commit(copy: str, commit: str, last: str) -> bool:
    """Tell whether a checkpoint has the content and the parent of the last one."""
    known = await _read(copy, "for-each-ref", "--format=%(objectname)", last)
    if not known:
        return False
    shown = [await _read(copy, "log", "-1", "--format=%T %P", each) for each in (commit, known)]
    return shown[0] == shown[1]


async def _git(cwd: str, *arguments: str, env: dict[str, str] | None = None) -> bytes:
    return await git(cwd, *arguments, env={**_ENVIRONMENT, **(env or {})})


async def _read(cwd: str, *arguments: str, env: dict[str, str] | None = None) -> str:
    return (await _git(cwd, *arguments, env=env)).decode("utf-8", "replace").strip()


def _names(output: bytes) -> list[str]:
    return [name for name in output.decode("utf-8", "surrogateescape").split("\0") if name]


def _branch(session: str) -> str:
    return f"dragoman/{_safe(session)}"


def _safe(session: str) -> str:
    """Return the id of a session as a part of a branch and a folder; others are imported, and may have any form."""
    is_plain = session.replace("-", "").replace("_", "").isalnum() and session.isascii() and len(session) <= 64
    return session if is_plain and not session.startswith("-") else hashlib.sha256(session.encode()).hexdigest()[:32]


def restored_text(restored: Restored, node: str, left_out: Sequence[str]) -> str:
    """Say what a working tree was made from, and what is missing in it."""
    if restored.source == "checkpoint":
        text = f"its working tree was made at node {node} from the checkpoint {restored.commit[:12]}"
        return f"{text}; not in it: {', '.join(left_out) or 'nothing'}"
    what = "the last pushed commit" if restored.source == "branch" else "the start of its branch"
    return f"its working tree was made at node {node} from {what} {restored.commit[:12]}; what was not pushed is gone"
