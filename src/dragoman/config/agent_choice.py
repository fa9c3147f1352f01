"""Choose agents by what they can do: the names of capabilities, what is known of an agent, and the order of candidates.

Pure. The names come from the types of the protocol, so a new capability can be chosen by as soon as it has a type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, get_args

import msgspec

from dragoman.schema.initialize import AgentCapabilities

# Ways to log in, as the types of authentication methods name them. NO_LOGIN: the agent offers none.
NO_LOGIN = "none"
LOGINS = ("agent", "terminal", "env_var", NO_LOGIN)


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of an agent: what it can and cannot do by path, and its logins, with source and date."""

    source: str  # "initialize": it said so itself on this machine; "registry": the registry's matrix
    date: str
    version: str = ""
    can: Mapping[str, bool] = {}
    logins: tuple[str, ...] | None = None  # None: not known
    is_complete: bool = False  # whether what is missing in `can` is a no


class Candidate(NamedTuple):
    """An agent, and how it compares with what is needed."""

    name: str
    meets: tuple[str, ...]
    lacks: tuple[str, ...]
    unknown: tuple[str, ...]
    is_installed: bool = True

    @property
    def fits(self) -> bool:
        """Whether it is known to meet every need."""
        return not self.lacks and not self.unknown


@cache
def capability_names() -> dict[str, str]:
    """Return the path of every capability by its short name: image -> promptCapabilities.image."""
    names: dict[str, str] = {}
    for path in _capability_paths(AgentCapabilities):
        group, _, last = path.rpartition(".")
        word = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", last).lower()
        prefix = {"mcpCapabilities": "mcp-", "auth": "auth-"}.get(group, "")
        if group.count(".") or (group and not prefix and word in names):
            prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", group.rpartition(".")[2]).lower() + "-"
        names[{"load-session": "load"}.get(word, prefix + word)] = path
    return names


def find_capability(name: str) -> str | None:
    """Return the path of a capability that is named by its short name, its path, or the last part of it."""
    names = capability_names()
    if name in names:
        return names[name]
    paths = list(names.values())
    if name in paths:
        return name
    found = [path for path in paths if path.rpartition(".")[2] == name]
    return found[0] if len(found) == 1 else None


def short_name(path: str) -> str:
    """Return the short name of a capability."""
    return next((name for name, known in capability_names().items() if known == path), path)


def facts_from_initialize(result: Mapping[str, Any], date: str) -> AgentFacts:
    """Return what an agent said of itself, from the JSON of its initialize result."""
    capabilities = result.get("agentCapabilities") or {}
    can = {path: _is_announced(capabilities, path) for path in capability_names().values()}
    methods = result.get("authMethods") or []
    logins = tuple(dict.fromkeys(str(method.get("type") or "agent") for method in methods if isinstance(method, dict)))
    info = result.get("agentInfo") or {}
    return AgentFacts(
        source="initialize",
        date=date,
        version=str(info.get("version", "")),
        can={path: True for path, announced in can.items() if announced},
        logins=logins,
        is_complete=True,
    )


def compare(
    name: str, facts: AgentFacts | None, needs: Iterable[str], logins: Iterable[str] = (), *, is_installed: bool = True
) -> Candidate:
    """Compare what is known of an agent with what is needed: paths of capabilities, and logins of which one is enough.

    What is not known is unknown, and not a no.
    """
    meets: list[str] = []
    lacks: list[str] = []
    unknown: list[str] = []
    for path in needs:
        known = None if facts is None else facts.can.get(path, False if facts.is_complete else None)
        (unknown if known is None else meets if known else lacks).append(short_name(path))
    if wanted := list(logins):
        offered = None if facts is None else facts.logins
        shown = f"login {'/'.join(wanted)}"
        if offered is None:
            unknown.append(shown)
        else:
            has_one = any(login in (offered or (NO_LOGIN,)) for login in wanted)
            (meets if has_one else lacks).append(shown)
    return Candidate(name, tuple(meets), tuple(lacks), tuple(unknown), is_installed)


def choose(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Order candidates: those that meet all first, then installed ones, then the fewest unknown, then by name.

    Those that lack something are left out.
    """
    return sorted(
        (each for each in candidates if not each.lacks),
        key=lambda each: (not each.fits, not each.is_installed, len(each.unknown), each.name),
    )


def _capability_paths(kind: type[Any]) -> list[str]:
    paths: list[str] = []
    for field in msgspec.structs.fields(kind):
        if field.encode_name.startswith("_"):
            continue
        inner = next((each for each in get_args(field.type) if _is_group(each)), None)
        if inner is None:
            paths.append(field.encode_name)
        else:
            below = [f"{field.encode_name}.{path}" for path in _capability_paths(inner)]
            # A group such as systemPrompt is itself a capability; promptCapabilities only holds others.
            paths += (
                below
                if field.encode_name.endswith("Capabilities") or field.encode_name == "auth"
                else [field.encode_name, *below]
            )
    return paths


def _is_group(kind: Any) -> bool:
    return (
        isinstance(kind, type)
        and issubclass(kind, msgspec.Struct)
        and any(not field.encode_name.startswith("_") for field in msgspec.structs.fields(kind))
    )


def _is_announced(capabilities: Any, path: str) -> bool:
    value = capabilities
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value is not None and value is not False
