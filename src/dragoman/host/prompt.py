"""What a client says in a session that it is in: prompts, cancels, modes and options; and what it says of itself.

Prompts of several people queue in the room, so nothing waits here. What only the session's agent can make sense of goes
there, with the id that the agent knows. Above is the desk; below are rooms.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from dragoman.dialect.side_data import side_data_of
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.errors import ProtocolError
from dragoman.host.auth.roles import EDITOR
from dragoman.host.refusals import is_extension, refusal
from dragoman.host.room.member import PRESENCE_STATES
from dragoman.schema.config import SetConfigOptionResult, SetModeResult
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient
    from dragoman.host.room.room import Room


def prompt(client: HostClient, incoming: Incoming, done: DoneCallback) -> None:
    """session/prompt: nothing waits here; the room answers when the turn is over."""
    params = incoming.params
    room, _ = client.joined_room(params.session_id, EDITOR)
    key = incoming.id

    def over(result: Any, error: ProtocolError | None) -> None:
        client.prompts.pop(key, None)
        done(result, error)

    waiting = room.enqueue_prompt(client, list(params.prompt), over)
    if incoming.is_request:
        client.prompts[key] = (room, waiting.id)


def cancel(client: HostClient, incoming: Incoming, _: DoneCallback) -> None:
    """session/cancel: of those who may; nothing happens where nothing runs."""
    room = client.rooms.get(incoming.params.session_id)
    member = room.members.get(client.id) if room is not None else None
    if room is not None and member is not None and member.can_control:
        room.cancel(client)


def cancel_request(client: HostClient, incoming: Incoming, _: DoneCallback) -> None:
    """$/cancel_request: a prompt is cancelled as a prompt; anything else by its task."""
    found = client.prompts.get(incoming.params.request_id)
    if found is not None:
        found[0].cancel(client, found[1])
    else:
        client.connection.running_requests.cancel(incoming.params.request_id)


async def set_mode(client: HostClient, params: Any) -> SetModeResult:
    """session/set_mode."""
    room, _ = client.joined_room(params.session_id, EDITOR)
    session = await room.ensure_session()
    await session.set_mode(params.mode_id, by=client.principal.user)
    return SetModeResult()


async def set_config_option(client: HostClient, params: Any) -> SetConfigOptionResult:
    """session/set_config_option."""
    room, _ = client.joined_room(params.session_id, EDITOR)
    session = await room.ensure_session()
    await session.set_option(
        params.config_id, side_data_of(params).get("value", params.value), by=client.principal.user
    )
    return SetConfigOptionResult(config_options=client.supported_options(session.options) or [])


def set_presence(client: HostClient, incoming: Incoming, done: DoneCallback) -> None:
    """_dragoman/presence: what this client says of its user."""
    said, room = _params_and_room(client, incoming)
    if room is not None and said.get("state") in PRESENCE_STATES:
        room.set_state(client, said["state"])
    if incoming.is_request:
        done({}, None)


def forward_fs_changed(client: HostClient, incoming: Incoming, _: DoneCallback) -> None:
    """fs/changed: what a client watches for an agent."""
    said, room = _params_and_room(client, incoming)
    if room is not None and room.session is not None and room.members[client.id].can_control:
        room.session.connection.notify("fs/changed", {**said, "sessionId": room.session.id})


def forward_extension(client: HostClient, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
    """A method that nobody here knows: an extension goes to the agent of the session it names, or of the only one."""
    why = ""
    if is_extension(incoming.method) and isinstance(incoming.values, dict):
        said, room = _params_and_room(client, incoming)
        if "sessionId" not in said and len(client.rooms) == 1:
            room = next(iter(client.rooms.values()))
        if room is not None:
            client.joined_room(room.id, EDITOR)
            return _forward_to_agent(room, said, incoming, done)
        why = "it goes to the agent of a session that you are in; name one with sessionId"
    if incoming.is_request:
        done(None, refusal(Side.AGENT, incoming, why))
    return None


async def _forward_to_agent(room: Room, values: dict[str, Any], incoming: Incoming, done: DoneCallback) -> None:
    session = await room.ensure_session()
    params = {**values, "sessionId": session.id} if "sessionId" in values else values
    if incoming.is_request:
        done(await session.connection.request_raw(incoming.method, params), None)
    else:
        session.connection.notify(incoming.method, params)


def _params_and_room(client: HostClient, incoming: Incoming) -> tuple[dict[str, Any], Room | None]:
    """What was said, and the room it is about, if this client is in it."""
    said = incoming.values if isinstance(incoming.values, dict) else {}
    session = said.get("sessionId")
    return said, client.rooms.get(session) if isinstance(session, str) else None
