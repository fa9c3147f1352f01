"""Files that other programs obey: a write to one runs a command later, unasked. Only the mode bypassPermissions writes
them without a question, a grant, or a rule whose pattern names them. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from dragoman.policy.question import WRITE_OPERATIONS, Question, names_below

# Names of files and folders, at any depth, in lower case because some file systems ignore it. By who reads them.
BEHAVIOR_NAMES: dict[str, tuple[str, ...]] = {
    # HEAD makes a folder a bare repository, with a config of its own.
    "git": (".git", "head", ".gitconfig", ".husky", ".githooks", ".pre-commit-config.yaml", "lefthook.yml"),
    "shells": (
        ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
        ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", ".envrc",
    ),
    "logins": (".ssh", ".pam_environment", ".xprofile", ".xinitrc", ".xsession"),
    "editors": (
        ".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".devcontainer.json", ".vimrc", ".exrc", ".nvimrc",
        ".nvim.lua", ".emacs", ".emacs.d", ".dir-locals.el",
    ),
    "agents": (".claude", ".cursor", ".codex", ".gemini", ".mcp.json"),
    "CI": (
        ".gitlab-ci.yml", ".circleci", ".buildkite", ".woodpecker", ".woodpecker.yml", ".drone.yml", ".travis.yml",
        "jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml",
        "cloudbuild.yaml",
    ),
    "tools": (
        ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".cargo", ".gdbinit", ".lldbinit", ".pdbrc",
        "sitecustomize.py", "usercustomize.py",
    ),
}  # fmt: skip

# A folder, and a name in it.
BEHAVIOR_PAIRS: tuple[tuple[str, str], ...] = (
    (".github", "workflows"),
    (".github", "actions"),
    (".gitea", "workflows"),
    (".forgejo", "workflows"),
    (".config", "git"),
    (".config", "fish"),
    (".config", "systemd"),
    (".config", "autostart"),
    ("library", "launchagents"),
)

BEHAVIOR_SUFFIXES = (".code-workspace", ".pth")

_NAMES = frozenset(name for names in BEHAVIOR_NAMES.values() for name in names)


def behavior_name(question: Question) -> str:
    """Return which part of the path of a write makes it a file that other programs obey; "" if none does."""
    if question.operation not in WRITE_OPERATIONS:
        return ""
    paths = (question.resource, question.requested_path)
    return next((name for path in paths if path and (name := _name_in(path, question.roots))), "")


@lru_cache(maxsize=1024)
def _name_in(path: str, roots: tuple[str, ...]) -> str:
    names = [name.casefold() for name in names_below(path, roots)]
    found = next((name for name in names if name in _NAMES), "")
    if not found:
        found = next(("/".join(pair) for pair in pairwise(names) if pair in BEHAVIOR_PAIRS), "")
    return found or (names[-1] if names[-1].endswith(BEHAVIOR_SUFFIXES) else "")
