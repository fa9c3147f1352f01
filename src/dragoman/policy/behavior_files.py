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
    "git": (
        ".git", "head", ".gitconfig", ".husky", ".huskyrc", ".githooks", ".pre-commit-config.yaml", "lefthook.yml",
        "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", ".overcommit.yml", ".hg", ".hgrc", ".jj",
    ),
    "shells": (
        ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
        ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc",
        ".envrc", ".xonshrc",
    ),
    "logins": (".ssh", ".pam_environment", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".forward", ".gnupg"),
    "editors": (
        ".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".devcontainer.json", ".vimrc", ".vim", ".gvimrc",
        ".exrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".emacs", ".emacs.d", ".dir-locals.el", ".helix",
    ),
    "agents": (
        ".claude", ".cursor", ".codex", ".gemini", ".mcp.json", ".opencode", "opencode.json", "opencode.jsonc", ".qwen",
        ".kiro", ".windsurf", ".continue", ".roo", ".goose", ".amp", ".factory", ".aider.conf.yml",
    ),
    "CI": (
        ".gitlab-ci.yml", ".circleci", ".buildkite", ".woodpecker", ".woodpecker.yml", ".woodpecker.yaml", ".drone.yml",
        ".travis.yml", ".cirrus.yml", ".semaphore", "jenkinsfile", "azure-pipelines.yml", "azure-pipelines.yaml",
        "bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml", "cloudbuild.yaml", "cloudbuild.yml",
    ),
    "tools": (
        ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn", ".pnpmfile.cjs", ".cargo", ".mvn", ".gradle", ".bazelrc",
        ".mise.toml", "mise.toml", ".mise", ".rvmrc", ".irbrc", ".pryrc", ".bundle", ".rprofile", ".psqlrc",
        ".sqliterc", ".gdbinit", ".lldbinit", ".pdbrc", ".ipython", ".jupyter", ".docker", ".kube", ".aws",
        ".tmux.conf", ".screenrc", ".curlrc", ".wgetrc", "sitecustomize.py", "usercustomize.py",
    ),
}  # fmt: skip

# A folder, and a name in it.
BEHAVIOR_PAIRS: tuple[tuple[str, str], ...] = (
    (".github", "workflows"),
    (".github", "actions"),
    (".gitea", "workflows"),
    (".forgejo", "workflows"),
    (".gitea", "actions"),
    (".forgejo", "actions"),
    (".config", "git"),
    (".config", "fish"),
    (".config", "nushell"),
    (".config", "direnv"),
    (".config", "systemd"),
    (".config", "environment.d"),
    (".config", "autostart"),
    (".config", "nvim"),
    (".config", "helix"),
    (".config", "zed"),
    (".config", "opencode"),
    (".config", "goose"),
    (".config", "mise"),
    ("library", "launchagents"),
)

BEHAVIOR_SUFFIXES = (".code-workspace", ".sublime-project", ".pth")

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
