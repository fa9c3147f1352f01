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


async def snapshot(folder: str, parent: str, message: str) -> str:
    """Return a commit of everything in a working tree that is not ignored. Changes neither index nor branch."""
    with tempfile.TemporaryDirectory(prefix="dragoman-index-") as place:
        env = {"GIT_INDEX_FILE": os.path.join(place, "index")}
        index = os.path.join(folder, (await git(folder, "rev-parse", "--git-path", "index")).decode().strip())
        if os.path.exists(index):
            # It knows which files did not change. Its own time says which of them git has to look at again.
            shutil.copy2(index, env["GIT_INDEX_FILE"])
        else:
            await git(folder, "read-tree", parent, env=env)
        await git(folder, "add", "--all", "--", ".", env=env)
        tree = (await git(folder, "write-tree", env=env)).decode().strip()
    same = (await git(folder, "rev-parse", f"{parent}^{{tree}}")).decode().strip()
    if tree == same:
        return parent
    return (await git(folder, "commit-tree", tree, "-p", parent, "-m", message)).decode().strip()


def last_lines(said: bytes) -> str:
    """Return the end of what git said, as one line."""
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return "; ".join(lines[-3:])
