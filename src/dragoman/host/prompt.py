"""What a client says in a session that it is in: prompts, cancels, modes and options; and what it says of itself.

Prompts of several people queue in the room, so nothing waits here. What only the session's agent can make sense of goes
there, with the id that the agent knows. Above is the desk; below are rooms.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from dragoman.dialect.side_data import side
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import Done
from dragoman.errors import ProtocolError
from dragoman.host.auth.roles import EDITOR
from dragoman.host.refusals import is_extension, refusal
from dragoman.host.room.member import STATES
from dragoman.schema.config import SetConfigOptionResult, SetModeResult
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.host.host_client import Desk
    from dragoman.host.room.room import Room


def prompt(desk: Desk, incoming: Incoming, done: Done) -> None:
    """session/prompt: nothing waits here; the room answers when the turn is over."""
    params = incoming.params
    room, _ = desk.joined(params.session_id, EDITOR)
    key = incoming.id

    def over(result: Any, error: ProtocolError | None) -> None:
        desk.prompts.pop(key, None)
        done(result, error)

    waiting = room.prompt(desk, list(params.prompt), over)
    if incoming.is_request:
        desk.prompts[key] = (room, waiting.id)


def cancel(desk: Desk, incoming: Incoming, _: Done) -> None:
    """session/cancel: of those who may; nothing happens where nothing runs."""
    room = desk.rooms.get(incoming.params.session_id)
    member = room.members.get(desk.id) if room is not None else None
    if room is not None and member is not None and member.controls:
        room.cancel(desk)


def cancel_request(desk: Desk, incoming: Incoming, _: Done) -> None:
    """$/cancel_request: a prompt is cancelled as a prompt; anything else by its task."""
    found = desk.prompts.get(incoming.params.request_id)
    if found is not None:
        found[0].cancel(desk, found[1])
    else:
        desk.connection.inbound.cancel(incoming.params.request_id)


async def set_mode(desk: Desk, params: Any) -> SetModeResult:
    """session/set_mode."""
    room, _ = desk.joined(params.session_id, EDITOR)
    session = await room.awake()
    await session.set_mode(params.mode_id, by=desk.visitor.user)
    return SetModeResult()


async def set_option(desk: Desk, params: Any) -> SetConfigOptionResult:
    """session/set_config_option."""
    room, _ = desk.joined(params.session_id, EDITOR)
    session = await room.awake()
    await session.set_option(params.config_id, side(params).get("value", params.value), by=desk.visitor.user)
    return SetConfigOptionResult(config_options=desk.shown(session.options) or [])


def presence(desk: Desk, incoming: Incoming, done: Done) -> None:
    """_dragoman/presence: what this client says of its user."""
    said, room = _named(desk, incoming)
    if room is not None and said.get("state") in STATES:
        room.set_state(desk, said["state"])
    if incoming.is_request:
        done({}, None)


def changed(desk: Desk, incoming: Incoming, _: Done) -> None:
    """fs/changed: what a client watches for an agent."""
    said, room = _named(desk, incoming)
    if room is not None and room.session is not None and room.members[desk.id].controls:
        room.session.connection.notify("fs/changed", {**said, "sessionId": room.session.id})


def otherwise(desk: Desk, incoming: Incoming, done: Done) -> Awaitable[None] | None:
    """A method that nobody here knows: an extension goes to the agent of the session it names, or of the only one."""
    why = ""
    if is_extension(incoming.method) and isinstance(incoming.values, dict):
        said, room = _named(desk, incoming)
        if "sessionId" not in said and len(desk.rooms) == 1:
            room = next(iter(desk.rooms.values()))
        if room is not None:
            desk.joined(room.id, EDITOR)
            return _to_agent(room, said, incoming, done)
        why = "it goes to the agent of a session that you are in; name one with sessionId"
    if incoming.is_request:
        done(None, refusal(Side.AGENT, incoming, why))
    return None


async def _to_agent(room: Room, said: dict[str, Any], incoming: Incoming, done: Done) -> None:
    session = await room.awake()
    params = {**said, "sessionId": session.id} if "sessionId" in said else said
    if incoming.is_request:
        done(await session.connection.request_raw(incoming.method, params), None)
    else:
        session.connection.notify(incoming.method, params)


def _named(desk: Desk, incoming: Incoming) -> tuple[dict[str, Any], Room | None]:
    """What was said, and the room it is about, if this client is in it."""
    said = incoming.values if isinstance(incoming.values, dict) else {}
    session = said.get("sessionId")
    return said, desk.rooms.get(session) if isinstance(session, str) else None
