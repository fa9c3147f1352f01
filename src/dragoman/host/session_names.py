"""Whose the names of sessions are: each user's own, in one store whose names are unique.

What the owner of the host calls a session is kept as it is. What anybody else calls one is kept as USER/NAME and shown
to them as NAME, to all others who may see it as USER/NAME: so nobody takes a name away from anybody, or learns of one.
Takes names and summaries, gives the same as they are kept, or as somebody sees them. Pure; above are house and API.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import Summary
from dragoman.store.summary import MAX_NAME_LENGTH, check_new_name, foreign_sign

# Users who stand before a name as they are, if they have no sign that names do not have; of others (their names may be
# as long as an address) a part, and a digest.
_PLAIN_USER = re.compile(r"[^\s/~\x00-\x1f\x7f][^/~\x00-\x1f\x7f]{0,39}")
_PART_LENGTH, _DIGEST_LENGTH = 20, 16


def namespace(user: str) -> str:
    """What stands before the names that a user gives; no two users have the same."""
    if _PLAIN_USER.fullmatch(user) is not None and not foreign_sign(user):
        return f"{user}/"
    part = re.sub(r"^\W+|[^\w.@+-]", "", user)[:_PART_LENGTH] or "user"
    return f"{part}~{_digest(user)}/"


def _namespaces(user: str) -> set[str]:
    """What may stand before the names of a user that are kept: also what did until names had none but plain signs."""
    if _PLAIN_USER.fullmatch(user) is not None:
        return {namespace(user), f"{user}/"}
    part = re.sub(r"[^\w.@+-]", "", user)[:_PART_LENGTH]
    return {namespace(user), f"{part}~{_digest(user)}/"}


def _digest(user: str) -> str:
    return hashlib.sha256(user.encode()).hexdigest()[:_DIGEST_LENGTH]


def stored_name(name: str, user: str | None) -> str:
    """A name as it is kept; `user` is None for the owner. invalid_params if it cannot be given."""
    check_new_name(name)
    if user is None:
        return name
    if "/" in name:
        raise _invalid(f"{name!r} cannot be given: USER/NAME are sessions of others; choose a name without '/'")
    full, most = namespace(user) + name, MAX_NAME_LENGTH - len(namespace(user))
    if len(full) > MAX_NAME_LENGTH:
        raise _invalid(f"this name is too long; at most {most} characters")
    return full


def with_display_names(summaries: Sequence[Summary], user: str | None, owner: str) -> list[Summary]:
    """Sessions as a user sees them; `user` is None for the owner, who sees them as they are kept."""
    if user is None:
        return list(summaries)
    spaces = _namespaces(user)
    own = {one.session_id: name for one in summaries if (name := _own_name(one.name, spaces)) is not None}
    taken = set(own.values())
    return [_with_display_name(one, own.get(one.session_id), taken, owner) for one in summaries]


def _own_name(name: str | None, spaces: set[str]) -> str | None:
    before, sign, rest = (name or "").partition("/")
    return rest if before + sign in spaces and rest and "/" not in rest else None


def _with_display_name(one: Summary, own: str | None, taken: set[str], owner: str) -> Summary:
    if own is not None:
        return msgspec.structs.replace(one, name=own)
    if one.name in taken:  # the owner's, beside one's own of that name
        return msgspec.structs.replace(one, name=f"{owner}/{one.name}")
    return one


def rename_error(name: str, error: ProtocolError, seen: Sequence[Summary]) -> ProtocolError:
    """Why a name was not taken, without a word of sessions that the caller may not see."""
    by = error.data.get("sessionId") if isinstance(error.data, dict) else None
    if error.kind != Kind.INVALID_PARAMS or not isinstance(by, str):
        return error
    if any(one.session_id == by for one in seen):
        return _invalid(f"{name!r} is taken by session {by!r}; choose another", {"sessionId": by})
    return _invalid(f"{name!r} cannot be given; choose another")


def _invalid(what: str, data: dict[str, str] | None = None) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, what, data)
