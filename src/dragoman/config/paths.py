"""Paths of the user's files, by the XDG rules. Nothing is created or read here; agents can never write these files."""

from __future__ import annotations

import os
import time
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
    cache: str

    @property
    def policy(self) -> str:
        """The user's policy file."""
        return os.path.join(self.config, POLICY_FILE)

    @property
    def config_file(self) -> str:
        """The user's config file."""
        return os.path.join(self.config, "config.toml")

    @property
    def history(self) -> str:
        """The prompt history."""
        return os.path.join(self.state, "history")

    @property
    def grants(self) -> str:
        """The grants file."""
        return os.path.join(self.state, "grants.json")

    @property
    def session_ids(self) -> str:
        """The agents' ids of sessions whose ids clients chose."""
        return os.path.join(self.state, "session-ids.json")

    @property
    def session_agents(self) -> str:
        """The agents that sessions used last."""
        return os.path.join(self.state, "session-agents.json")

    @property
    def sessions(self) -> str:
        """The session store."""
        return os.path.join(self.state, "sessions.db")

    @property
    def host_database(self) -> str:
        """The host database: users, tokens and session roles."""
        return os.path.join(self.state, "host.db")

    @property
    def trust(self) -> str:
        """The trusted project files, by content."""
        return os.path.join(self.state, "trust.json")

    @property
    def audit(self) -> str:
        """The audit log."""
        return os.path.join(self.state, "audit", "audit.jsonl")

    @property
    def introductions(self) -> str:
        """What agents said of themselves."""
        return os.path.join(self.state, "agents.json")

    @property
    def agents(self) -> str:
        """The agents installed from a registry."""
        return os.path.join(self.data, "agents")

    @property
    def tools(self) -> str:
        """The programs that were brought as wheels for these agents."""
        return os.path.join(self.data, "tools")

    @property
    def agents_lock(self) -> str:
        """The lock of the installed agents."""
        return os.path.join(self.config, "agents.lock")

    def protected_paths(self, roots: Iterable[str] = ()) -> list[str]:
        """Return what an agent can never write: our folders, the targets of links in them, and any project's policy
        folder, which may belong to another session.
        """
        files = [self.policy, *(project_policy_path(root) for root in roots)]
        return [self.config, self.state, self.data, self.cache, *files, PROJECT_FOLDER]


def user_paths(environ: Mapping[str, str] = os.environ) -> UserPaths:
    """Return the folders for an environment."""
    home = environ.get("HOME") or os.path.expanduser("~")

    def folder(variable: str, otherwise: str) -> str:
        named = environ.get(variable, "")
        # The XDG rule: a relative path counts as unset.
        return os.path.join(named if os.path.isabs(named) else os.path.join(home, otherwise), "dragoman")

    return UserPaths(
        config=folder("XDG_CONFIG_HOME", ".config"),
        state=folder("XDG_STATE_HOME", ".local/state"),
        data=folder("XDG_DATA_HOME", ".local/share"),
        cache=folder("XDG_CACHE_HOME", ".cache"),
        home=os.path.realpath(home),
    )


def project_policy_path(root: str) -> str:
    """Return the policy file of a project."""
    return os.path.join(root, PROJECT_FOLDER, POLICY_FILE)


def protect_user_files(sandbox: Sandbox | None, environ: Mapping[str, str] = os.environ) -> Sandbox | None:
    """Return the sandbox with our files protected; None stays None."""
    if sandbox is None:
        return None
    ours = user_paths(environ)
    # A policy that is a link has its target elsewhere; a missing file is in a protected folder.
    files = [path for path in (ours.policy, ours.config_file) if os.path.exists(path)]
    return sandbox.with_protected([ours.config, ours.state, ours.data, ours.cache, *files])


def new_recording_path() -> str:
    """Return a new file for a recording in the state folder: editors start agents in any folder."""
    folder = os.path.join(user_paths().state, "recordings")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, time.strftime(f"%Y%m%d-%H%M%S-{os.getpid()}.ndjson"))
