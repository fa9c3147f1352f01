"""What happens to joins and prompts of users whose role, token or link is taken away."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import Kind
from dragoman.transport.memory import MemoryTransport
from dragoman.transport.remote.server.auth import Principal
from tests.host.auth.test_roles import denied
from tests.host.fleet.memory_fleet import running_fleet
from tests.host.memory_host import Hosted, open_session, running_host, until

# Bytes that a slow client takes at once: much less than the history.
SLOW = 2000


class SlowClient:
    """A client that reads only when it is asked to, and so chooses how long a join takes."""

    def __init__(self, hosted: Hosted, user: str, **principal: Any) -> None:
        self._transport: MemoryTransport = hosted.connect_as(user, limit=SLOW, **principal)

    def send(self, id: int, method: str, params: Any) -> None:
        frame = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self._transport.send(json.dumps(frame).encode())

    async def answer(self, id: int) -> dict[str, Any]:
        """Read up to the answer to this request."""
        while True:
            for frame in await self._transport.receive():
                message: dict[str, Any] = json.loads(bytes(frame))  # type: ignore[arg-type]
                if message.get("id") == id:
                    return message

    async def initialize(self) -> None:
        self.send(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        await self.answer(0)

    async def prompt_error(self, session: str) -> Any:
        """Prompt, and return the kind of the error; None if it ran."""
        self.send(9, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "still here"}]})
        return (await self.answer(9)).get("error", {}).get("data", {}).get("kind")

    async def close(self) -> None:
        await self._transport.close()


def roles_in(room: Any) -> dict[str, str]:
    return {member.client.principal.user: member.role for member in room.members.values()}


OPENINGS = [
    ("session/load", {"cwd": "/", "mcpServers": []}),
    ("session/attach", {"role": "controller"}),
]


@pytest.mark.parametrize(("method", "params"), OPENINGS, ids=["load", "attach"])
@pytest.mark.parametrize("role", [None, "viewer"])
async def test_a_role_that_changes_during_a_join_counts(
    method: str, params: dict[str, Any], role: str | None, tmp_path: Path
) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann:
        one = await open_session(ann, tmp_path)
        await one.ask("many 500")
        await hosted.host.session_roles.set_role(one.id, "ben", "editor")
        ben = SlowClient(hosted, "ben")
        await ben.initialize()
        ben.send(1, method, {"sessionId": one.id, **params})
        await until(lambda: hosted.room.members.is_joining)
        await ann.request("_dragoman/set_role", {"sessionId": one.id, "user": "ben", "role": role})
        assert hosted.room.members.is_joining, "the history is still being sent"
        answer = await ben.answer(1)
        if role is None:
            assert answer["error"]["data"]["kind"] == Kind.SESSION_NOT_FOUND
            assert await ben.prompt_error(one.id) == Kind.SESSION_NOT_FOUND
            assert roles_in(hosted.room) == {"ann": "admin"}
        else:
            assert answer["result"].get("role", "observer") == "observer"
            assert await ben.prompt_error(one.id) == Kind.PERMISSION_DENIED
            assert roles_in(hosted.room) == {"ann": "admin", "ben": "viewer"}
        await ben.close()


async def test_a_removed_client_is_sent_no_more_of_the_history(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann:
        one = await open_session(ann, tmp_path)
        await one.ask("many 500")
        await hosted.host.session_roles.set_role(one.id, "ben", "viewer")
        ben = SlowClient(hosted, "ben")
        await ben.initialize()
        before = hosted.host.counters.delivered_entries
        ben.send(1, "session/load", {"sessionId": one.id, "cwd": "/", "mcpServers": []})
        await until(lambda: hosted.room.members.is_joining)
        [joining] = hosted.room.members.joining
        await ann.request("_dragoman/set_role", {"sessionId": one.id, "user": "ben", "role": None})
        await ben.answer(1)
        assert joining.seen_seq < 200, "a few entries were under way"
        assert hosted.host.counters.delivered_entries == before
        await ben.close()


async def test_a_user_who_is_removed_while_the_session_is_read_does_not_join(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann, hosted.client("ben") as ben:
        one = await open_session(ann, tmp_path)
        await hosted.host.session_roles.set_role(one.id, "ben", "editor")
        acquire, is_reading, may_go_on = hosted.host.acquire_any_room, asyncio.Event(), asyncio.Event()

        async def acquire_slowly(session: str) -> Any:
            is_reading.set()
            await may_go_on.wait()
            return await acquire(session)

        hosted.host.acquire_any_room = acquire_slowly  # type: ignore[method-assign]
        joining = asyncio.ensure_future(ben.request("session/attach", {"sessionId": one.id}))
        await is_reading.wait()
        await hosted.host.session_roles.set_role(one.id, "ben", None)
        await hosted.host.apply_role_changes(one.id)
        may_go_on.set()
        error = (await asyncio.gather(joining, return_exceptions=True))[0]
        assert getattr(error, "kind", None) == Kind.SESSION_NOT_FOUND
        assert roles_in(hosted.room) == {"ann": "admin"}


async def test_an_observer_who_is_promoted_during_a_join_stays_one(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann:
        one = await open_session(ann, tmp_path)
        await one.ask("many 500")
        await hosted.host.session_roles.set_role(one.id, "ben", "viewer")
        ben = SlowClient(hosted, "ben")
        await ben.initialize()
        ben.send(1, "session/attach", {"sessionId": one.id, "role": "observer"})
        await until(lambda: hosted.room.members.is_joining)
        await ann.request("_dragoman/set_role", {"sessionId": one.id, "user": "ben", "role": "admin"})
        assert (await ben.answer(1))["result"]["role"] == "observer"
        assert roles_in(hosted.room) == {"ann": "admin", "ben": "viewer"}
        await ben.close()


async def test_a_client_that_disconnects_during_a_join_is_no_member(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann:  # as revoked and expired tokens end a connection
        one = await open_session(ann, tmp_path)
        await one.ask("many 500")
        link = {"session": one.id, "role": "editor", "is_local": False, "token_id": "l1"}
        guest = SlowClient(hosted, "guest", **link)
        await guest.initialize()
        guest.send(1, "session/load", {"sessionId": one.id, "cwd": "/", "mcpServers": []})
        await until(lambda: hosted.room.members.is_joining)
        [client] = [each for each in hosted.host.clients if each.principal.token_id == "l1"]
        client.disconnect("the link was revoked")
        await until(lambda: client not in hosted.host.clients)
        assert not hosted.room.members.is_joining
        assert roles_in(hosted.room) == {"ann": "admin"}


@pytest.mark.parametrize("role", [None, "viewer"])
async def test_a_role_that_changes_during_a_join_at_another_node_counts(role: str | None) -> None:
    async with running_fleet(("n1", "n2")) as (first, second), first.client("ann") as ann:
        one = await open_session(ann)
        await one.ask("many 500")
        await first.host.session_roles.set_role(one.id, "ben", "editor")
        ben = SlowClient(second.hosted, "ben", is_local=False)
        await ben.initialize()
        ben.send(1, "session/load", {"sessionId": one.id, "cwd": "/", "mcpServers": []})
        await until(
            lambda: one.id in second.fleet.ownership.distant_rooms and second.distant(one.id).members.is_joining
        )
        await ann.request("_dragoman/set_role", {"sessionId": one.id, "user": "ben", "role": role})
        answer = await ben.answer(1)
        refused = await ben.prompt_error(one.id)
        if role is None:
            assert answer["error"]["data"]["kind"] == refused == Kind.SESSION_NOT_FOUND
            await until(lambda: roles_in(first.host.rooms[one.id]) == {"ann": "admin"})
            assert roles_in(second.distant(one.id)) == {}
        else:
            assert refused == Kind.PERMISSION_DENIED
            assert roles_in(second.distant(one.id)) == {"ben": "viewer"}
        await ben.close()


@pytest.mark.parametrize("role", [None, "viewer"])
async def test_the_owner_of_a_session_does_not_believe_another_node_what_role_a_user_has(role: str | None) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        # The other node does not hear that the role changed.
        second.fleet.links._notifications["tell"] = lambda *_: None
        async with first.client("ann") as ann, second.client("ben", principal={"is_local": False}) as ben:
            one = await open_session(ann)
            await first.host.session_roles.set_role(one.id, "ben", "editor")
            two = await ben.load_session(one.id, "/tmp")
            assert await two.ask("hello") == "heard hello"
            await ann.request("_dragoman/set_role", {"sessionId": one.id, "user": "ben", "role": role})
            if role is not None:  # the node comes back, and tells the owner of its members again
                await second.cut_links()
            assert roles_in(second.distant(one.id)) == {"ben": "editor"}
            calls: tuple[tuple[str, dict[str, Any]], ...] = (
                ("session/prompt", {"prompt": [{"type": "text", "text": "still here"}]}),
                ("session/set_mode", {"modeId": "x"}),
                ("session/cancel", {}),
            )
            expected = Kind.SESSION_NOT_FOUND if role is None else Kind.PERMISSION_DENIED
            for method, params in calls[:2]:
                assert (await denied(ben.request(method, {"sessionId": one.id, **params}))).kind == expected
            ben.notify(calls[2][0], {"sessionId": one.id})
            ben.notify("_dragoman/presence", {"sessionId": one.id, "state": "typing"})
            assert await one.ask("again") == "heard again"
            present = {} if role is None else {"ben": role}
            assert roles_in(first.host.rooms[one.id]) == {"ann": "admin", **present}


async def test_a_client_that_leaves_while_the_owner_reads_its_role_is_no_member() -> None:
    async with running_fleet(("n1", "n2")) as (first, second), first.client("ann") as ann:
        one = await open_session(ann)
        await first.host.session_roles.set_role(one.id, "ben", "editor")
        role_in, is_reading, may_go_on = first.host.role_in, asyncio.Event(), asyncio.Event()

        async def read_slowly(principal: Principal, session: str) -> str | None:
            is_reading.set()
            await may_go_on.wait()
            return await role_in(principal, session)

        async with second.client("ben", principal={"is_local": False}) as ben:
            await ben.load_session(one.id, "/tmp")
            (client,) = first.fleet.distant_clients._clients.values()
            first.host.role_in = read_slowly  # type: ignore[method-assign]
            await second.cut_links()  # the node comes back, and tells the owner of its members
            await is_reading.wait()
        await until(lambda: client.leave_counts[one.id])
        may_go_on.set()
        await until(lambda: not first.host.rooms[one.id].members.role_lock.locked())
        assert roles_in(first.host.rooms[one.id]) == {"ann": "admin"}
