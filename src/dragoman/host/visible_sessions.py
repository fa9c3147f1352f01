"""Which sessions a principal may see, in pages and with the names they use, and one of them by name or id.

Asks the store only for what is wanted: the cost does not depend on how many sessions others have.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from dragoman.errors import Kind, ProtocolError
from dragoman.host import session_names
from dragoman.host.access import session_not_found
from dragoman.store.contract import ALL_SESSIONS, Feature, Selection, Summary, session_cursor

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.transport.remote.server.auth import Principal

# The shortest beginning of an id that finds a session: fewer characters are more likely a typing error.
MIN_ID_PREFIX = 8

# Sessions that are read at a time where all are looked at.
_PAGE_SIZE = 500


async def visible_sessions(host: Host, principal: Principal, wanted: Selection = ALL_SESSIONS) -> list[Summary]:
    """Return the sessions that a principal may see, the latest change first."""
    if principal.session is not None:
        return await host.store.sessions(wanted._replace(ids=[principal.session]))
    user, roles = principal.user, host.session_roles
    if Feature.MEMBERS in host.store.features:
        found = await host.store.sessions(wanted._replace(of=user))
    elif user and user == roles.owner:  # a session that nobody opened here belongs to the owner
        found = await host.store.sessions(wanted._replace(without=await roles.sessions_closed_to(user)))
    else:
        found = await host.store.sessions(wanted._replace(ids=(await roles.sessions_of(user)).keys()))
    return await _with_display_names(host, principal, found)


async def _pages(host: Host, principal: Principal) -> AsyncIterator[list[Summary]]:
    after = None
    while page := await visible_sessions(host, principal, Selection(after=after, limit=_PAGE_SIZE)):
        yield page
        after = session_cursor(page[-1])


async def find_visible(host: Host, principal: Principal, name: str) -> Summary:
    """Find a session by id, name or the beginning of an id, among those that a principal may see."""
    for stored in (name, *session_names.stored_forms(name, host.naming_user(principal), host.session_roles.owner)):
        summary = await _find_exactly(host, stored)
        if summary is None or await host.role_in(principal, summary.session_id) is None:
            continue
        [shown] = await _with_display_names(host, principal, [summary])
        # A name of the owner is found with the prefix too, because others of the same session may see it so.
        if name in (shown.session_id, shown.name, f"{host.session_roles.owner}/{summary.name}"):
            return shown
    if len(name) < MIN_ID_PREFIX:
        raise session_not_found(name)
    return await _find_by_prefix(host, principal, name)


async def _find_exactly(host: Host, name: str) -> Summary | None:
    try:
        summary = await host.store.find(name)
    except ProtocolError as error:
        if error.kind not in (Kind.SESSION_NOT_FOUND, Kind.SESSION_EXPIRED):
            raise
        return None
    return summary if name in (summary.session_id, summary.name) else None


async def _find_by_prefix(host: Host, principal: Principal, prefix: str) -> Summary:
    try:
        found = [await host.store.find(prefix)]
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND:
            raise
        # Nobody has it, or several have: perhaps only one that this principal may see.
        found = [one async for page in _pages(host, principal) for one in page if one.session_id.startswith(prefix)]
    if len(found) != 1 or await host.role_in(principal, found[0].session_id) is None:
        raise session_not_found(prefix)
    [shown] = await _with_display_names(host, principal, found)
    return shown


async def _with_display_names(host: Host, principal: Principal, summaries: Sequence[Summary]) -> list[Summary]:
    namer = host.naming_user(principal)
    if namer is None:
        return list(summaries)
    # A name of somebody else that the user also gave to a session, which may be on another page.
    names = {summary.name for summary in summaries if summary.name}
    forms = {form: name for name in names for form in session_names.own_forms(name, namer)}
    taken = {name for form, name in forms.items() if form not in names and await _find_exactly(host, form) is not None}
    return session_names.with_display_names(summaries, namer, host.session_roles.owner, taken)
