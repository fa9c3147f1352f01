"""Where files of the user's are: the folders of the XDG rules, and the names in them.

Takes an environment, gives paths; nothing is created or read here. What is named here is never written for an agent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import msgspec

from dragoman.transport.sandbox.spec import Sandbox

# The folder of a project that holds its policy.
PROJECT_FOLDER = ".dragoman"
POLICY_FILE = "policy.toml"


class UserPaths(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of this user."""

    config: str
    state: str
    data: str
    home: str

    @property
    def policy(self) -> str:
        """The user's own policy file."""
        return os.path.join(self.config, POLICY_FILE)

    @property
    def config_file(self) -> str:
        """The user's agents by name."""
        return os.path.join(self.config, "config.toml")

    @property
    def history(self) -> str:
        """What was typed in conversations."""
        return os.path.join(self.state, "history")

    @property
    def grants(self) -> str:
        """The remembered decisions."""
        return os.path.join(self.state, "grants.json")

    @property
    def sessions(self) -> str:
        """The logs of sessions."""
        return os.path.join(self.state, "sessions.db")

    @property
    def host_database(self) -> str:
        """Who may use the host of this user, and what they are in which session."""
        return os.path.join(self.state, "host.db")

    @property
    def trust(self) -> str:
        """Which project files are trusted, by content."""
        return os.path.join(self.state, "trust.json")

    @property
    def audit(self) -> str:
        """The audit log."""
        return os.path.join(self.state, "audit", "audit.jsonl")

    def protected_paths(self, roots: Iterable[str] = ()) -> list[str]:
        """What an agent's file calls can never write: all of ours by its folders, and where a link leads out of them;
        and the folder of a project's policy, wherever it is, for it may be another session's."""
        files = [self.policy, *(project_policy_path(root) for root in roots)]
        return [self.config, self.state, self.data, *files, PROJECT_FOLDER]


def user_paths(environ: Mapping[str, str] = os.environ) -> UserPaths:
    """The folders as an environment has them."""
    home = environ.get("HOME") or os.path.expanduser("~")

    def folder(variable: str, otherwise: str) -> str:
        named = environ.get(variable, "")
        # The XDG rule: a relative path counts as unset.
        return os.path.join(named if os.path.isabs(named) else os.path.join(home, otherwise), "dragoman")

    return UserPaths(
        config=folder("XDG_CONFIG_HOME", ".config"),
        state=folder("XDG_STATE_HOME", ".local/state"),
        data=folder("XDG_DATA_HOME", ".local/share"),
        home=os.path.realpath(home),
    )


def project_policy_path(root: str) -> str:
    """The policy file of a project."""
    return os.path.join(root, PROJECT_FOLDER, POLICY_FILE)


def protect_user_files(sandbox: Sandbox | None, environ: Mapping[str, str] = os.environ) -> Sandbox | None:
    """The same sandbox, closed to what is ours; None stays none."""
    if sandbox is None:
        return None
    ours = user_paths(environ)
    # A policy that is a link leads out of its folder; what is not there is in a folder that is closed.
    files = [path for path in (ours.policy, ours.config_file) if os.path.exists(path)]
    return sandbox.with_protected([ours.config, ours.state, ours.data, *files])
