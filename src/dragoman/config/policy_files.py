"""Load the policy of a session: the user's file, and the files of its project folders, as far as they are trusted.

A file that becomes unreadable during a session denies everything; at the start the error is raised.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from hashlib import sha256

from dragoman.config.paths import UserPaths, project_policy_path
from dragoman.config.private_files import JsonFile, file_stamp, read_bytes
from dragoman.config.toml_reader import decode_text
from dragoman.errors import ConfigFault
from dragoman.policy.decide import Policy
from dragoman.policy.decision import DENY
from dragoman.policy.parse import parse_policy
from dragoman.policy.rules import Rule, RuleFile


def content_hash(data: bytes) -> str:
    """Return the hash of a content."""
    return sha256(data).hexdigest()


class TrustedFiles:
    """The project files that the user trusts, by path and content hash. A changed file is no longer trusted."""

    def __init__(self, path: str) -> None:
        self._file = JsonFile(path, dict[str, str], {}, "start without trust")

    def is_trusted(self, file: str, data: bytes) -> bool:
        """Return whether exactly this content of this file is trusted."""
        return self._file.current().get(os.path.realpath(file)) == content_hash(data)

    def trust(self, file: str, data: bytes) -> None:
        """Trust this content."""
        self._file.edit(lambda known: {**known, os.path.realpath(file): content_hash(data)})

    def revoke(self, file: str) -> bool:
        """Stop trusting a file; return whether it was trusted."""
        real, found = os.path.realpath(file), set[str]()

        def without(known: dict[str, str]) -> dict[str, str]:
            found.update(known.keys() & {real})
            return {path: hash for path, hash in known.items() if path != real}

        self._file.edit(without)
        return bool(found)


class PolicyLoader:
    """The policy files of one user, for any session's folders."""

    def __init__(self, paths: UserPaths, trust: TrustedFiles | None = None, *, user_file: str | None = None) -> None:
        self._paths = paths
        # A file that the user names explicitly must exist.
        self._user_file = paths.policy if user_file is None else os.path.abspath(user_file)
        self._is_required = user_file is not None
        self._trust = trust or TrustedFiles(paths.trust)
        self._cache: dict[tuple[str, ...], tuple[object, Policy]] = {}

    def __call__(self, roots: tuple[str, ...]) -> Policy:
        """Return the current policy for these folders; a faulty file denies everything."""
        stamps = tuple(map(file_stamp, [self._user_file, self._paths.trust, *map(project_policy_path, roots)]))
        known = self._cache.get(roots)
        if known is None or known[0] != stamps:
            known = self._cache[roots] = (stamps, self._load(roots, strict=False))
        return known[1]

    def load(self, roots: tuple[str, ...]) -> Policy:
        """Load the policy once, and raise every error."""
        return self._load(roots, strict=True)

    def protected_paths(self, roots: Sequence[str]) -> list[str]:
        """Return what an agent can never write in a session with these folders."""
        return [*self._paths.protected_paths(roots), self._user_file]

    def _load(self, roots: tuple[str, ...], *, strict: bool) -> Policy:
        files: list[RuleFile] = []
        faults: list[str] = []
        mode = "default"
        more: tuple[str, ...] = ()
        for path, base in [(self._user_file, ""), *((project_policy_path(root), root) for root in roots)]:
            name = os.path.relpath(path, base) if base and base == roots[0] else path
            try:
                data = read_bytes(path)
                if data is None and self._is_required and not base:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                if data is None:
                    continue
                parsed = parse_policy(decode_text(data, name), name, is_project=bool(base))
                is_trusted = not base or self._trust.is_trusted(path, data)
            except OSError as error:
                fault = ConfigFault([f"{name}: {error.strerror or error}"])
            except ConfigFault as error:
                fault = error
            else:
                mode = parsed.mode or mode
                more += tuple(map(self._resolve_root, parsed.roots))
                files.append(
                    RuleFile(
                        name=name,
                        rules=parsed.rules,
                        base=os.path.realpath(base) if base else "",
                        home=self._paths.home,
                        is_trusted=is_trusted,
                    )
                )
                continue
            faults += fault.faults
            files.append(RuleFile(name=name, rules=(Rule(verdict=DENY, reason=str(fault)),)))
        if strict and faults:
            raise ConfigFault(faults)
        ours = [os.path.realpath(place) if "/" in place else place for place in self.protected_paths(roots)]
        return Policy(files=tuple(files), mode=mode, protected=tuple(ours), roots=more)

    def _resolve_root(self, root: str) -> str:
        """Return a folder from the policy file, resolved."""
        return os.path.realpath(os.path.join(self._paths.home, root.removeprefix("~/")))
