"""Applies changed roles and revoked tokens: to those who are in a session or join it, and to their prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from dragoman.host.access import refused_prompt_error
from dragoman.host.auth.roles import EDITOR, is_at_least
from dragoman.host.room.notifications import closed_notification

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.host.room.room import Room
    from dragoman.transport.remote.server.auth import Principal


async def apply_role_changes(host: Host, session: str) -> None:
    """Apply changed roles of a session, and note the change for whoever lists sessions."""
    await apply_roles(host, session)
    host.activity.note(session)


async def apply_roles(host: Host, session: str) -> None:
    """Give everybody in a session the role that they have now.

    Whoever may not see it any more is removed, and viewers do not prompt.
    """
    room = host.known_room(session)
    if room is None:
        return
    members = room.members
    async with members.role_lock:
        for member in [*members.values(), *members.joining]:
            role = await host.role_in(member.client.principal, session)
            members.set_role(member, role)
            if role is None and members.get(member.client.id) is member:
                member.notify(closed_notification(session, "you were removed from this session"))
                member.client.rooms.get(session, room).leave(member.client)
    # After the members, so that nobody adds a prompt meanwhile. Their users need not be present.
    principals = [prompt.principal for prompt in room.prompts if prompt.principal is not None]
    refused = await principals_who_may_not_prompt(host, session, principals)
    room = host.known_room(session)
    if room is not None and refused:
        refuse_prompts(room, refused.__contains__, "you may not prompt in this session any more")


async def principals_who_may_not_prompt(host: Host, session: str, principals: Iterable[Principal]) -> set[Principal]:
    """Return those of the principals who may not prompt in a session now."""
    return {
        principal
        for principal in set(principals)
        if not is_at_least(await host.role_in(principal, session) or "", EDITOR)
    }


def refuse_prompts(room: Room, is_refused: Callable[[Principal], bool], reason: str) -> None:
    """Withdraw the waiting prompts of principals, and cancel the running one."""
    for prompt in room.prompts:
        if prompt.principal is not None and is_refused(prompt.principal) and not prompt.is_cancelled:
            room.report(f"a prompt of {prompt.principal.user} was withdrawn: {reason}")
            room.refuse_prompt(prompt, refused_prompt_error(room.id, reason))


def prompting_principals(host: Host) -> list[Principal]:
    """Return who sent the prompts that run or wait, connected or not."""
    return [prompt.principal for room in host.open_rooms for prompt in room.prompts if prompt.principal is not None]


def refuse_all_prompts(host: Host, is_refused: Callable[[Principal], bool], reason: str) -> None:
    """Withdraw the prompts of principals in all sessions."""
    for room in host.open_rooms:
        refuse_prompts(room, is_refused, reason)
