"""Run git without hooks, questions or variables of the caller, and take a snapshot of a working tree."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence

from dragoman.errors import Kind, ProtocolError

# How long one git command may take: a large checkout on a slow disk. Seconds.
GIT_TIMEOUT = 300.0

_IDENTITY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "dragoman"), ("EMAIL", "dragoman@localhost"))
}


# The mode of an entry of a tree that is another repository.
_REPOSITORY_MODE = "160000"


class GitFailed(ProtocolError):
    """A git command failed; the message has what git said."""

    def __init__(self, what: str, said: str) -> None:
        super().__init__(Kind.INVALID_STATE, f"{what}: {said}" if said else what)


async def git(cwd: str, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None) -> bytes:
    """Run git and return its output; raise GitFailed with its last lines."""
    code, output, said = await run_git(cwd, arguments, env or {}, stdin)
    if code != 0:
        raise GitFailed(f"git {arguments[0]} failed in {cwd}", last_lines(said or output))
    return output


async def run_git(
    cwd: str, arguments: Sequence[str], env: Mapping[str, str], stdin: bytes | None
) -> tuple[int, bytes, bytes]:
    """Run git. Return its exit code, its output and what it said on stderr."""
    # A hook or a variable of the caller must not decide which repository is changed.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **_IDENTITY, **env}
    try:
        process = await asyncio.create_subprocess_exec(
            *("git", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", *arguments),
            cwd=cwd,
            env=environ,
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C on the terminal must not leave half a worktree
        )
    except FileNotFoundError:
        raise GitFailed("worktrees need git", "install git, or work without isolate") from None
    try:
        async with asyncio.timeout(GIT_TIMEOUT):
            output, said = await process.communicate(stdin)
    except BaseException as error:
        if process.returncode is None:
            process.kill()
            await process.wait()
        if isinstance(error, TimeoutError):
            raise GitFailed(f"git {arguments[0]} took longer than {GIT_TIMEOUT:g} s", "") from None
        raise
    return process.returncode or 0, output, said


async def snapshot(folder: str, parent: str, message: str, env: Mapping[str, str] | None = None) -> str:
    """Return a commit of everything in a working tree that is not ignored. Changes neither index nor branch.

    `env` names the repository where `.git` of the folder is not to be trusted.
    """
    known = dict(env or {})
    with tempfile.TemporaryDirectory(prefix="dragoman-index-") as place:
        env = {**known, "GIT_INDEX_FILE": os.path.join(place, "index")}
        own_index = (await git(folder, "rev-parse", "--git-path", "index", env=known)).decode().strip()
        index = os.path.join(folder, own_index)
        if os.path.exists(index):
            # It knows which files did not change. Its own time says which of them git has to look at again.
            shutil.copy2(index, env["GIT_INDEX_FILE"])
        else:
            await git(folder, "read-tree", parent, env=env)
        await forget_repositories(folder, env)
        await git(folder, "add", "--all", "--", ".", env=env)
        tree = (await git(folder, "write-tree", env=env)).decode().strip()
    same = (await git(folder, "rev-parse", f"{parent}^{{tree}}", env=known)).decode().strip()
    if tree == same:
        return parent
    return (await git(folder, "commit-tree", tree, "-p", parent, "-m", message, env=known)).decode().strip()


async def list_repositories(folder: str, env: Mapping[str, str]) -> list[str]:
    """Return the entries of an index that are other repositories."""
    staged = (await git(folder, "ls-files", "-z", "--stage", env=env)).decode("utf-8", "surrogateescape").split("\0")
    return [line.partition("\t")[2] for line in staged if line.startswith(_REPOSITORY_MODE)]


async def forget_repositories(folder: str, env: Mapping[str, str]) -> None:
    """Remove the repositories that are in the folder from an index, before `git add` adds them again.

    Of a repository that is in the index, `git add` asks `git status` in it, which runs the programs that the
    configuration of that repository names. One that is not in the index is only read.
    """
    found = await list_repositories(folder, env)
    names = [name for name in found if os.path.lexists(os.path.join(folder, name, ".git"))]
    if names:
        text = "".join(f"{name}\0" for name in names).encode("utf-8", "surrogateescape")
        await git(folder, "update-index", "-z", "--force-remove", "--stdin", env=env, stdin=text)


def last_lines(said: bytes) -> str:
    """Return the end of what git said, as one line."""
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return "; ".join(lines[-3:])
