"""The policy that applies to a session: the user's file, and that of each project folder, as far as it is trusted.

Takes folders, gives a pure Policy; files are read again when they change. A file that cannot be read while a session
runs denies everything, so that a fault never opens a door; at the start, and for `policy check`, it is raised.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from dragoman.config.paths import Places, project_policy
from dragoman.config.private_files import read, stamp
from dragoman.config.trust import Trust
from dragoman.errors import ConfigFault
from dragoman.policy.decide import Policy
from dragoman.policy.decision import DENY
from dragoman.policy.parse import parse
from dragoman.policy.rules import Rule, RuleFile


class Policies:
    """The policy files of one user, for any session's folders."""

    def __init__(self, places: Places, trust: Trust | None = None, *, own: str | None = None) -> None:
        self._places = places
        # A file that the user names in place of the usual one has to be there.
        self._own = places.policy if own is None else os.path.abspath(own)
        self._is_named = own is not None
        self._trust = trust or Trust(places.trust)
        self._known: dict[tuple[str, ...], tuple[object, Policy]] = {}

    def __call__(self, roots: tuple[str, ...]) -> Policy:
        """The policy of a session with these folders, as the files are now; faults deny."""
        stamps = tuple(map(stamp, [self._own, self._places.trust, *map(project_policy, roots)]))
        known = self._known.get(roots)
        if known is None or known[0] != stamps:
            known = self._known[roots] = (stamps, self._load(roots, strict=False))
        return known[1]

    def load(self, roots: tuple[str, ...]) -> Policy:
        """The same, once, and every fault is raised."""
        return self._load(roots, strict=True)

    def protected(self, roots: Sequence[str]) -> list[str]:
        """What an agent's file calls never write, for a session with these folders."""
        return [*self._places.protected(roots), self._own]

    def _load(self, roots: tuple[str, ...], *, strict: bool) -> Policy:
        files: list[RuleFile] = []
        faults: list[str] = []
        mode = "default"
        more: tuple[str, ...] = ()
        for path, base in [(self._own, ""), *((project_policy(root), root) for root in roots)]:
            name = os.path.relpath(path, base) if base and base == roots[0] else path
            try:
                data = read(path)
                if data is None and self._is_named and not base:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                if data is None:
                    continue
                parsed = parse(_decoded(data, name), name, is_project=bool(base))
                is_trusted = not base or self._trust.covers(path, data)
            except OSError as error:
                fault = ConfigFault([f"{name}: {error.strerror or error}"])
            except ConfigFault as error:
                fault = error
            else:
                mode = parsed.mode or mode
                more += tuple(map(self._at_home, parsed.roots))
                files.append(
                    RuleFile(
                        name=name,
                        rules=parsed.rules,
                        base=os.path.realpath(base) if base else "",
                        home=self._places.home,
                        is_trusted=is_trusted,
                    )
                )
                continue
            faults += fault.faults
            files.append(RuleFile(name=name, rules=(Rule(verdict=DENY, reason=str(fault)),)))
        if strict and faults:
            raise ConfigFault(faults)
        ours = [os.path.realpath(place) if "/" in place else place for place in self.protected(roots)]
        return Policy(files=tuple(files), mode=mode, protected=tuple(ours), roots=more)

    def _at_home(self, root: str) -> str:
        """A folder that the user named, resolved."""
        return os.path.realpath(os.path.join(self._places.home, root.removeprefix("~/")))


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigFault([f"{name}: line {line}: the file is not UTF-8"]) from None
