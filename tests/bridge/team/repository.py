"""A git repository for tests of worktrees."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

IDENTITY = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]


def git(folder: Path, *arguments: str) -> str:
    """Run git and return its output."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", *IDENTITY, *arguments]
    return subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True, text=True).stdout


def make_repository(folder: Path) -> Path:
    """Make a repository with one commit, a change that is not committed, and a file that git does not know."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main", ".")
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_text("x = 1\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "begin")
    (folder / "src" / "app.py").write_text("x = 2\n")
    (folder / "new.txt").write_text("new\n")
    (folder / "secret.log").write_text("ignored\n")
    return folder


def state_of(folder: Path) -> tuple[str, str, str]:
    """Return what must not change: head, index and branches outside dragoman/."""
    branches = [line for line in git(folder, "branch", "--format=%(refname:short)").split() if "dragoman/" not in line]
    return git(folder, "rev-parse", "HEAD"), git(folder, "ls-files", "--stage"), " ".join(branches)
