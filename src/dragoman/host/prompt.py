"""Calls of a client in a session: prompt, cancel, mode, options, presence, extensions.

Prompts queue in the room, so nothing waits here. Extensions go to the agent of the session.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.dialect.side_data import side_data_of
from dragoman.engine.incoming import DoneCallback, Incoming
from dragoman.errors import Kind, ProtocolError
from dragoman.host.access import is_extension, refusal
from dragoman.host.auth.roles import ADMIN, EDITOR, is_at_least
from dragoman.host.room.member import PRESENCE_STATES
from dragoman.roles.agent.options import options_for_client
from dragoman.schema.base import to_json
from dragoman.schema.config import SetConfigOptionResult
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient
    from dragoman.host.room.room import Room


def prompt(client: HostClient, incoming: Incoming, done: DoneCallback) -> None:
    """session/prompt: queue it. The room answers when the turn is over."""
    params = incoming.params
    room, _ = client.joined_room(params.session_id, EDITOR)
    key = incoming.id

    def on_done(result: Any, error: ProtocolError | None) -> None:
        client.prompts.pop(key, None)
        done(result, error)

    waiting = room.enqueue_prompt(client, list(params.prompt), on_done)
    if incoming.is_request:
        client.prompts[key] = (room, waiting.id)


def cancel(client: HostClient, incoming: Incoming, _: DoneCallback) -> None:
    """session/cancel: for editors. Do nothing if nothing runs."""
    room = client.rooms.get(incoming.params.session_id)
    member = room.members.get(client.id) if room is not None else None
    if room is not None and member is not None and member.can_control:
        room.cancel(client)


def cancel_request(client: HostClient, incoming: Incoming, _: DoneCallback) -> None:
    """$/cancel_request: cancel a prompt as a prompt, anything else by its task."""
    found = client.prompts.get(incoming.params.request_id)
    if found is not None:
        found[0].cancel(client, found[1])
    else:
        client.connection.running_requests.cancel(incoming.params.request_id)


def withdraw(client: HostClient, values: Any) -> dict[str, Any]:
    """_dragoman/withdraw {sessionId, promptId}: take a waiting prompt back; the answer has its content."""
    session, id = (values.get(name) for name in ("sessionId", "promptId")) if isinstance(values, dict) else (None, None)
    if not isinstance(session, str) or not isinstance(id, str):
        raise ProtocolError(Kind.INVALID_PARAMS, "sessionId and promptId are strings")
    room, member = client.joined_room(session, EDITOR)
    is_admin = is_at_least(member.role, ADMIN)
    waiting = room.withdraw_prompt(client.principal.user, id, is_admin=is_admin)
    return {"prompt": to_json(waiting.prompt)}


def stop(client: HostClient, values: Any) -> None:
    """_dragoman/stop {sessionId}: cancel the running turn and no waiting prompt."""
    session = values.get("sessionId") if isinstance(values, dict) else None
    if not isinstance(session, str):
        raise ProtocolError(Kind.INVALID_PARAMS, "sessionId is a string")
    client.joined_room(session, EDITOR)[0].stop_turn()


async def cancel_in_turn(client: HostClient, incoming: Incoming) -> Any:
    """tool_call/cancel, terminal/cancel: end one of them and let the turn go on, if the agent can."""
    params = incoming.params
    room, _ = client.joined_room(params.session_id, EDITOR)
    session = room.agent.session
    if session is None:  # do not start an agent to cancel what it cannot be running
        raise ProtocolError(Kind.INVALID_PARAMS, "the agent of this session is not running, so nothing is to be ended")
    try:
        result = await session.request(incoming.method, msgspec.structs.replace(params, session_id=session.id))
    except ProtocolError as error:
        if error.kind not in (Kind.CAPABILITY_UNSUPPORTED, Kind.METHOD_NOT_FOUND):
            raise
        raise ProtocolError(Kind.INVALID_PARAMS, "the agent cannot cancel it alone; cancel the turn") from error
    await room.log.flush()  # the answer comes after the updates that the agent sent before it
    return result


async def set_mode(client: HostClient, params: Any) -> None:
    """session/set_mode."""
    room, _ = client.joined_room(params.session_id, EDITOR)
    session = await room.agent.ensure_session()
    await session.set_mode(params.mode_id, by=client.principal.user)


async def set_config_option(client: HostClient, params: Any) -> SetConfigOptionResult:
    """session/set_config_option."""
    room, _ = client.joined_room(params.session_id, EDITOR)
    session = await room.agent.ensure_session()
    await session.set_option(
        params.config_id, side_data_of(params).get("value", params.value), by=client.principal.user
    )
    return SetConfigOptionResult(config_options=options_for_client(client.connection, session.options))


def set_presence(client: HostClient, incoming: Incoming, done: DoneCallback) -> None:
    """_dragoman/presence: set what the user of this client is doing."""
    values, room = _params_and_room(client, incoming)
    if room is not None and values.get("state") in PRESENCE_STATES:
        room.set_presence(client, values["state"])
    if incoming.is_request:
        done({}, None)


def forward_fs_changed(client: HostClient, incoming: Incoming, _: DoneCallback) -> None:
    """fs/changed: forward a file change that a client watches for the agent."""
    values, room = _params_and_room(client, incoming)
    if room is not None and room.agent.session is not None and room.members[client.id].can_control:
        room.agent.session.connection.notify("fs/changed", {**values, "sessionId": room.agent.session.id})


def forward_extension(client: HostClient, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
    """Forward an extension to the agent of the session it names, or of the only one the client is in."""
    reason = ""
    if is_extension(incoming.method) and isinstance(incoming.values, dict):
        values, room = _params_and_room(client, incoming)
        if "sessionId" not in values and len(client.rooms) == 1:
            room = next(iter(client.rooms.values()))
        if room is not None:
            client.joined_room(room.id, EDITOR)
            return _forward_to_agent(room, values, incoming, done)
        reason = "it goes to the agent of a session that you are in; name the session with sessionId"
    if incoming.is_request:
        done(None, refusal(Side.AGENT, incoming, reason))
    return None


async def _forward_to_agent(room: Room, values: dict[str, Any], incoming: Incoming, done: DoneCallback) -> None:
    session = await room.agent.ensure_session()
    params = {**values, "sessionId": session.id} if "sessionId" in values else values
    if incoming.is_request:
        result = await session.connection.request_raw(incoming.method, params)
        await room.log.flush()  # the answer comes after the updates that the agent sent before it
        done(result, None)
    else:
        session.connection.notify(incoming.method, params)


def _params_and_room(client: HostClient, incoming: Incoming) -> tuple[dict[str, Any], Room | None]:
    """Return the params, and the room they name if this client is in it."""
    values = incoming.values if isinstance(incoming.values, dict) else {}
    session = values.get("sessionId")
    return values, client.rooms.get(session) if isinstance(session, str) else None
