"""Session names per user, in a store where names are unique: no user can take a name from another, or learn of it.

A name that a user other than the owner gives is stored as USER/NAME; that user sees NAME.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import Summary
from dragoman.store.summary import MAX_NAME_LENGTH, check_new_name, disallowed_character

# Users who can be a prefix as they are, if all their characters are allowed in names. For the others the prefix is a
# part of the user name and a digest.
_PLAIN_USER = re.compile(r"[^\s/~\x00-\x1f\x7f][^/~\x00-\x1f\x7f]{0,39}")
_PART_LENGTH, _DIGEST_LENGTH = 20, 16


def namespace(user: str) -> str:
    """Return the prefix of the names that a user gives. It is unique for each user."""
    if _PLAIN_USER.fullmatch(user) is not None and not disallowed_character(user):
        return f"{user}/"
    part = re.sub(r"^\W+|[^\w.@+-]", "", user)[:_PART_LENGTH] or "user"
    return f"{part}~{_digest(user)}/"


def _namespaces(user: str) -> set[str]:
    """Return all prefixes that stored names of a user may have, including those of earlier versions."""
    if _PLAIN_USER.fullmatch(user) is not None:
        return {namespace(user), f"{user}/"}
    part = re.sub(r"[^\w.@+-]", "", user)[:_PART_LENGTH]
    return {namespace(user), f"{part}~{_digest(user)}/"}


def _digest(user: str) -> str:
    return hashlib.sha256(user.encode()).hexdigest()[:_DIGEST_LENGTH]


def stored_name(name: str, user: str | None) -> str:
    """Return a name as it is stored. `user` is None for the owner. Raise invalid_params for an invalid name."""
    check_new_name(name)
    if user is None:
        return name
    if "/" in name:
        raise _invalid(
            f"{name!r} is no session that you may see, and USER/NAME is a session of another user; "
            "ask that user to share it with you, or choose a name without '/'"
        )
    full, limit = namespace(user) + name, MAX_NAME_LENGTH - len(namespace(user))
    if len(full) > MAX_NAME_LENGTH:
        raise _invalid(f"this name is too long; at most {limit} characters")
    return full


def own_forms(name: str, user: str) -> list[str]:
    """Return how a name may be stored that a user gave; none for a name that nobody can give."""
    return [] if "/" in name else sorted(space + name for space in _namespaces(user))


def stored_forms(name: str, user: str | None, owner: str) -> list[str]:
    """Return how a name that a user sees may be stored, besides as it is. `user` is None for the owner."""
    if user is None:
        return []
    owners = name.removeprefix(f"{owner}/")  # shown so where the user has the same name
    return own_forms(name, user) + ([owners] if owners != name else [])


def with_display_names(
    summaries: Sequence[Summary], user: str | None, owner: str, others: Collection[str] = ()
) -> list[Summary]:
    """Return the sessions with the names that a user sees. `user` is None for the owner, who sees the stored names.

    `others` are names that the user gave to sessions that are not among these.
    """
    if user is None:
        return list(summaries)
    spaces = _namespaces(user)
    own = {summary.session_id: name for summary in summaries if (name := _own_name(summary.name, spaces)) is not None}
    taken = {*own.values(), *others}
    return [_with_display_name(summary, own.get(summary.session_id), taken, owner) for summary in summaries]


def _own_name(name: str | None, spaces: set[str]) -> str | None:
    before, slash, own = (name or "").partition("/")
    return own if before + slash in spaces and own and "/" not in own else None


def _with_display_name(summary: Summary, own: str | None, taken: set[str], owner: str) -> Summary:
    if own is not None:
        return msgspec.structs.replace(summary, name=own)
    if summary.name in taken:  # the owner's session has the same name as one of the user's
        return msgspec.structs.replace(summary, name=f"{owner}/{summary.name}")
    return summary


def rename_error(name: str, error: ProtocolError, *, is_visible: bool) -> ProtocolError:
    """Return why a name was rejected, without revealing a session that the caller may not see."""
    by = error.data.get("sessionId") if isinstance(error.data, dict) else None
    if error.kind != Kind.INVALID_PARAMS or not isinstance(by, str):
        return error
    if is_visible:
        return _invalid(f"{name!r} is already used by session {by!r}; choose another", {"sessionId": by})
    return _invalid(f"{name!r} is not available; choose another")


def _invalid(what: str, data: dict[str, str] | None = None) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, what, data)
