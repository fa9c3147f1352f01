"""Git worktrees for the agents of a team: each starts from the user's tree as it is, with what is not committed.

A worktree is outside the tree, on a branch of its own. A merge changes the user's files all at once, or not at all if
there are conflicts; it never changes the user's commits, branches or index.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from contextlib import suppress

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.git import GitFailed, git, last_lines, run_git, snapshot

# `git merge-tree --write-tree`, which merges without a working tree, came with this version.
GIT_VERSION = (2, 38)


class NothingToStartFrom(GitFailed):
    """There is no commit from which worktrees could start."""

    def __init__(self, what: str, remedy: str, *, can_share: bool = True) -> None:
        """`can_share`: whether the agents may also work in one tree."""
        super().__init__(what, f"{remedy}, or do not isolate" if can_share else remedy)
        self.what = what
        self.remedy = remedy


class FileStat(msgspec.Struct, frozen=True):
    """How much of a file changed; -1 lines if it is not text."""

    path: str
    added: int
    removed: int


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a merge changed, or the conflicts for which it changed none."""

    files: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    branch: str = ""
    messages: str = ""  # what git says about the conflicts

    @property
    def is_clean(self) -> bool:
        """Whether there were no conflicts."""
        return not self.conflicts


class Worktree:
    """The working tree and the branch of one agent."""

    def __init__(self, owner: Worktrees, path: str, branch: str) -> None:
        self._owner = owner
        self.path = path
        self.branch = branch
        self.git_dir = ""  # its part of the user's repository, known before its agent starts

    @property
    def _env(self) -> dict[str, str]:
        """The repository of the worktree by name: its agent can replace `.git` there, with programs that git runs."""
        return {"GIT_DIR": self.git_dir, "GIT_WORK_TREE": self.path} if self.git_dir else {}

    @property
    def cwd(self) -> str:
        """The folder of the agent: as deep in the worktree as the user's folder is in the tree."""
        return os.path.normpath(os.path.join(self.path, self._owner.inner))

    @property
    def base(self) -> str:
        """The commit that the worktree started from."""
        return self._owner.base

    async def commit(self, message: str) -> str:
        """Put everything in the worktree into one commit on its branch; return the commit."""
        commit = await snapshot(self.path, self.base, message, self._env)
        await git(self.path, "update-ref", f"refs/heads/{self.branch}", commit, env=self._env)
        await git(self.path, "reset", "--quiet", "--soft", commit, env=self._env)
        return commit

    async def stats(self) -> list[FileStat]:
        """Return what changed since the start, by file; committed by `commit`."""
        output = await git(self._owner.root, "diff", "--numstat", "-z", "--no-renames", self.base, self.branch)
        rows = [row.split("\t", 2) for row in output.decode("utf-8", "replace").split("\0") if row]
        return [FileStat(path, _count(added), _count(removed)) for added, removed, path in rows]

    async def diff(self) -> str:
        """Return the changes since the start as a patch."""
        options = ("--no-renames", "--no-color", "--no-ext-diff")
        output = await git(self._owner.root, "diff", *options, self.base, self.branch)
        return output.decode("utf-8", "replace")

    async def merge(self) -> MergeResult:
        """Bring the changes of the branch into the user's tree: all of them, or none if there are conflicts."""
        await self.commit("work of an agent")
        return await merge_branch(self._owner.root, self.base, self.branch)

    async def remove(self, *, keeps_branch: bool = True) -> None:
        """Remove the worktree, and the branch unless it is kept."""
        await self._owner.remove(self, keeps_branch=keeps_branch)


class Worktrees:
    """The worktrees of one team."""

    def __init__(self, root: str, inner: str, base: str, team: str, folder: str) -> None:
        self.root = root  # the top of the user's tree
        self.inner = inner  # the user's folder below it
        self.base = base  # a commit of the user's tree as it was
        self._team = team
        self._folder = folder
        self.by_id: dict[str, Worktree] = {}
        self._lock = asyncio.Lock()  # git cannot add two worktrees at the same time

    @classmethod
    async def open(cls, cwd: str, team: str) -> Worktrees:
        """Check that worktrees can be made here, and take a snapshot of the user's tree."""
        await _check_version(cwd)
        try:
            root = (await git(cwd, "rev-parse", "--show-toplevel")).decode().strip()
        except GitFailed:
            raise NothingToStartFrom(f"{cwd} is not in a git repository", "run `git init` and commit") from None
        try:
            head = (await git(root, "rev-parse", "--verify", "HEAD^{commit}")).decode().strip()
        except GitFailed:
            raise NothingToStartFrom(f"{root} has no commit yet", "commit something first") from None
        base = await snapshot(root, head, f"the tree of the user, for {team}")
        # Not in the user's state folder, which agents may not write.
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix=f"dragoman-{_safe(team)}-")
        return cls(root, os.path.relpath(os.path.realpath(cwd), os.path.realpath(root)), base, _safe(team), folder)

    def find(self, id: str) -> Worktree:
        """Return the worktree of an agent."""
        if id not in self.by_id:
            known = ", ".join(self.by_id) or "none"
            raise ProtocolError(Kind.INVALID_PARAMS, f"{id} has no worktree; there are {known}")
        return self.by_id[id]

    async def add(self, id: str) -> Worktree:
        """Make the worktree of an agent, on a branch `dragoman/TEAM/AGENT`, or with a number if there is one."""
        async with self._lock:
            path = os.path.join(self._folder, _safe(id))
            branch = await self._free_branch(f"dragoman/{self._team}/{_safe(id)}")
            worktree = self.by_id[id] = Worktree(self, path, branch)
            adding = asyncio.ensure_future(git(self.root, "worktree", "add", "--quiet", "-b", branch, path, self.base))
            try:
                await asyncio.shield(adding)
            except asyncio.CancelledError:
                await asyncio.wait([adding])  # half a worktree could not be removed
                raise
            except GitFailed as error:
                del self.by_id[id]
                with suppress(GitFailed):  # it may have made the branch
                    await git(self.root, "branch", "--quiet", "-D", branch)
                raise GitFailed(f"the worktree of {id} cannot be made", error.message) from None
            worktree.git_dir = (await git(path, "rev-parse", "--absolute-git-dir")).decode().strip()
            return worktree

    async def _free_branch(self, name: str) -> str:
        listed = await git(self.root, "for-each-ref", "--format=%(refname:short)", f"refs/heads/{name}*")
        taken = set(listed.decode().split())
        return next(each for each in (name, *(f"{name}-{number}" for number in range(2, 10_000))) if each not in taken)

    async def remove(self, worktree: Worktree, *, keeps_branch: bool) -> None:
        """Remove a worktree."""
        async with self._lock:
            try:  # git would refuse one whose `.git` was changed
                await asyncio.to_thread(shutil.rmtree, worktree.path)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise GitFailed(f"{worktree.path} cannot be removed", error.strerror or str(error)) from None
            await git(self.root, "worktree", "prune")
            if not keeps_branch:
                await git(self.root, "branch", "--quiet", "-D", worktree.branch)
        self.by_id = {id: each for id, each in self.by_id.items() if each is not worktree}

    async def close(self, *, keeps_branches: bool = True) -> None:
        """Commit what is left in the worktrees to their branches, and remove the worktrees; drop empty branches."""
        failures: list[GitFailed] = []
        for worktree in list(self.by_id.values()):
            try:
                await worktree.commit("work of an agent")
                has_changes = bool(await worktree.stats())
                await self.remove(worktree, keeps_branch=keeps_branches and has_changes)
            except GitFailed as error:  # the other worktrees must go, too
                failures.append(error)
        if failures:  # what could not be committed stays where it is
            raise GitFailed(f"the worktrees in {self._folder} could not be removed", failures[0].message)
        shutil.rmtree(self._folder, ignore_errors=True)


async def merge_branch(root: str, base: str, branch: str) -> MergeResult:
    """Merge a branch that started from `base` into the files of a tree: all or none."""
    ours = await snapshot(root, base, "the tree of the user, before the merge")
    code, output, said = await run_git(root, ["merge-tree", "--write-tree", "--name-only", ours, branch], {}, None)
    if code not in (0, 1):
        raise GitFailed(f"{branch} cannot be merged", last_lines(said or output))
    tree, *rest = output.decode("utf-8", "replace").split("\n")
    if code == 1:
        end = rest.index("") if "" in rest else len(rest)
        conflicts = tuple(dict.fromkeys(rest[:end]))
        return MergeResult(conflicts=conflicts, branch=branch, messages="\n".join(rest[end + 1 :]).strip())
    patch = await git(root, "diff", "--binary", "--no-renames", "--no-color", "--no-ext-diff", ours, tree.strip())
    names = await git(root, "diff", "--name-only", "-z", "--no-renames", ours, tree.strip())
    if patch:
        await git(root, "apply", "--whitespace=nowarn", "-", stdin=patch)
    files = tuple(name for name in names.decode("utf-8", "replace").split("\0") if name)
    return MergeResult(files=files, branch=branch)


async def find_branches(cwd: str) -> list[str]:
    """Return the branches that agents of teams left in a repository."""
    output = await git(cwd, "for-each-ref", "--format=%(refname:short)", "refs/heads/dragoman/")
    return output.decode().split()


async def base_of(cwd: str, branch: str) -> str:
    """Return the commit that the work on a branch started from: the parent of its one commit."""
    return (await git(cwd, "rev-parse", "--verify", f"{branch}^")).decode().strip()


async def _check_version(cwd: str) -> None:
    text = (await git(cwd, "--version")).decode()
    found = re.search(r"(\d+)\.(\d+)", text)
    if found is not None and (int(found[1]), int(found[2])) < GIT_VERSION:
        raise GitFailed(f"worktrees of a team need git {'.'.join(map(str, GIT_VERSION))} or newer", text.strip())


def _safe(name: str) -> str:
    """Return a name as a part of a branch and a folder."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "agent"


def _count(text: str) -> int:
    return int(text) if text.isdigit() else -1
