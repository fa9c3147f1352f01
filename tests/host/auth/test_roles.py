"""Several people in one session: roles, queued prompts, presence."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman import connect
from dragoman.errors import Kind, ProtocolError
from dragoman.host.limits import HostLimits
from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk
from dragoman.store.memory import MemoryStore
from tests.host.memory_host import ANNOUNCING, messages_of, open_session, running_host, until


async def denied(work: Any) -> ProtocolError:
    """Return the error for a call that the client may not make."""
    with pytest.raises(ProtocolError) as refused:
        await work
    return refused.value


def record_notifications(received: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return options of a client that subscribes to all topics and records them."""
    names = ("presence", "queue", "turn", "permission_resolved", "closed", "workspace", "agent")
    on = {f"_dragoman/{name}": (lambda params, name=name: received.append((name, params))) for name in names}
    return {"capabilities": ANNOUNCING, "on": on}


@pytest.mark.item("004-76")
async def test_a_viewer_sees_everything_and_may_change_nothing(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann, hosted.client("vic", permission="allow") as vic:
        one = await open_session(ann, tmp_path)
        await hosted.host.session_roles.set_role(one.id, "vic", "viewer")
        two = await vic.load_session(one.id, str(tmp_path))
        for work in (two.ask("mine"), two.set_mode("x"), vic.delete_session(one.id)):
            assert (await denied(work)).kind == Kind.PERMISSION_DENIED
        refused = await denied(vic.request("session/attach", {"sessionId": one.id, "role": "controller"}))
        assert refused.kind == Kind.PERMISSION_DENIED
        task = asyncio.ensure_future(one.ask("wait gate"))
        await until(lambda: ("agent", "waiting for gate") in messages_of(two))
        two.cancel()
        await vic.request("session/attach", {"sessionId": one.id, "role": "observer", "historyPolicy": "none"})
        hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
        assert await task == "waiting for gate; gate came"
        task = asyncio.ensure_future(one.ask("ask"))
        await until(lambda: hosted.room.questions.has_open or task.done())
        assert await task == "no"  # ann's client denies; vic's, which would allow, was not asked


async def test_session_ids_of_other_users_are_not_found(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann, hosted.client("eve") as eve:
        one = await open_session(ann, tmp_path)
        calls: list[tuple[str, dict[str, Any]]] = [
            ("session/load", {"cwd": "/", "mcpServers": []}),
            ("session/resume", {"cwd": "/"}),
            ("session/attach", {}),
            ("session/fork", {"cwd": "/"}),
            ("session/close", {}),
            ("session/prompt", {"prompt": []}),
            ("session/set_mode", {"modeId": "x"}),
        ]
        for method, params in calls:
            received = [
                await denied(eve.request(method, {"sessionId": id, **params})) for id in (one.id, "0" * len(one.id))
            ]
            assert [error.kind for error in received] == [Kind.SESSION_NOT_FOUND] * 2
            assert received[0].message.replace(one.id, "X") == received[1].message.replace("0" * len(one.id), "X"), (
                method
            )
        for id in (one.id, "0" * len(one.id)):
            await eve.delete_session(id)  # deleting an invisible session succeeds and changes nothing
        assert (await eve.list_sessions()).sessions == []
        assert await one.ask("still here")
        assert [info.session_id for info in (await ann.list_sessions()).sessions] == [one.id]


async def test_a_share_link_opens_one_session_only(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann:
        one, two = await open_session(ann, tmp_path), await open_session(ann, tmp_path)
        await one.ask("x")
        link = {"session": one.id, "role": "editor", "is_local": False}
        async with hosted.client("guest", principal=link) as guest:
            shared = await guest.load_session(one.id, str(tmp_path))
            assert await shared.ask("y") == "heard y"
            assert [info.session_id for info in (await guest.list_sessions()).sessions] == [one.id]
            assert (await denied(guest.load_session(two.id, "/"))).kind == Kind.SESSION_NOT_FOUND
            assert (await denied(guest.open_session("/"))).kind == Kind.PERMISSION_DENIED
            assert (await denied(guest.delete_session(one.id))).kind == Kind.PERMISSION_DENIED


@pytest.mark.item("004-76")
@pytest.mark.parametrize("store", [None, MemoryStore], ids=["not logged", "logged"])
async def test_prompts_of_three_people_queue_visibly_and_each_is_answered_by_its_own_turn(
    tmp_path: Path, store: Any
) -> None:
    received: list[tuple[str, Any]] = []
    async with (
        running_host() as hosted,
        hosted.client("ann", **record_notifications(received)) as ann,
        hosted.client("ben") as ben,
        hosted.client("cem", extra_capabilities={"host": {"turns": True}}, store=store and store()) as cem,
    ):
        one = await open_session(ann, tmp_path)
        for user in ("ben", "cem"):
            await hosted.host.session_roles.set_role(one.id, user, "editor")
        two, three = await ben.resume_session(one.id, "/"), await cem.resume_session(one.id, "/")
        first = asyncio.ensure_future(one.ask("wait gate"))
        await until(lambda: messages_of(one)[-1:] == [("agent", "waiting for gate")])
        http2_socket = asyncio.ensure_future(two.ask("second"))
        await until(lambda: len(hosted.room.queue.waiting) == 1)
        third = asyncio.ensure_future(three.ask("third"))
        await until(lambda: len(hosted.room.queue.waiting) == 2)
        hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
        assert await first == "waiting for gate; gate came"
        # A client sees updates of other turns in its own turn, unless it checks whose turn it is.
        assert (await http2_socket) == "; gate cameheard second"
        assert (await third) == "heard third"
        meanwhile = [
            getattr(update.content, "text", "")
            for update in three.updates_outside_turns
            if isinstance(update, AgentMessageChunk)
        ]
        assert "".join(meanwhile).endswith("; gate cameheard second")
        await until(lambda: messages_of(one)[-1] == ("agent", "heard third"))
        assert [text for who, text in messages_of(one) if who == "user"] == ["wait gate", "second", "third"]
        queued = [
            [(each["user"], each["preview"]) for each in params["waiting"]] for n, params in received if n == "queue"
        ]
        assert [("ben", "second"), ("cem", "third")] in queued
        turns = [(it["state"], it.get("by")) for name, it in received if name == "turn" and it["state"] != "yours"]
        assert turns == [
            (state, by) for who in ("ann", "ben", "cem") for state, by in (("started", who), ("ended", None))
        ]
        log = await hosted.host.store.read(one.id)
        assert [entry.actor for entry in log if entry.kind == "prompt"] == ["ann", "ben", "cem"]


def test_a_client_on_an_url_connection_can_prompt_and_list() -> None:
    def announced(target: str, **options: Any) -> Any:
        capabilities = connect(target, **options)._initialize_params.client_capabilities
        return capabilities.meta["dragoman"] if capabilities and capabilities.meta else None

    assert announced("wss://host.example/acp") == {"host": {"turns": True}}
    more = {"host": {"queue": True}, "mine": 1}
    assert announced("https://host.example/acp", extra_capabilities=more) == {
        "host": {"turns": True, "queue": True},
        "mine": 1,
    }
    assert announced("agent --acp") is None  # what a local agent is sent stays unchanged


async def test_a_queued_turn_does_not_time_out_as_silent(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann", extra_capabilities={"host": {"turns": True}}) as ann:
        one = await open_session(ann, tmp_path)
        async with one.prompt("wait gate", idle_timeout=30.0) as turn:
            await until(lambda: turn._received_count)
            before = turn._received_count + turn._foreign_count
            one._note_host_turn("started", "another")
            one._receive(AgentMessageChunk(content=TextContent(text="theirs")))
            assert turn._received_count + turn._foreign_count == before + 1
            one._note_host_turn("ended", "another")
            hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
            messages_of = [getattr(update, "content", None) async for update in turn]
        assert TextContent(text="theirs") not in messages_of
        assert TextContent(text="theirs") in [
            update.content for update in one.updates_outside_turns if hasattr(update, "content")
        ]


async def test_a_cancel_withdraws_ones_own_waiting_prompts_and_editors_stop_the_turn(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann, hosted.client("ann") as ben:
        one = await open_session(ann, tmp_path)
        two = await ben.resume_session(one.id, "/")
        async with one.prompt("wait gate") as running:
            await until(lambda: ("agent", "waiting for gate") in messages_of(two))
            async with two.prompt("mine") as waiting:
                await until(lambda: hosted.room.queue.waiting)
                two.cancel()
                assert (await waiting.wait()).stop_reason == "cancelled"
            assert not running.is_over
            two.cancel()
            assert (await running.wait()).stop_reason == "cancelled"
        assert [text for who, text in messages_of(one) if who == "user"] == ["wait gate"]


async def test_a_turn_continues_without_clients_and_a_returning_client_gets_all_of_it(tmp_path: Path) -> None:
    async with running_host() as hosted:
        async with hosted.client("ann") as ann:
            one = await open_session(ann, tmp_path)
            ann.notify("session/prompt", {"sessionId": one.id, "prompt": [{"type": "text", "text": "wait gate"}]})
            await until(lambda: ("agent", "waiting for gate") in messages_of(one))
        await until(lambda: not hosted.room.members)
        hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
        await until(lambda: hosted.room.queue.is_empty)
        async with hosted.client("ann") as again:
            back = await again.load_session(one.id, str(tmp_path))
            assert messages_of(back) == [("user", "wait gate"), ("agent", "waiting for gate; gate came")]


@pytest.mark.item("004-76")
async def test_presence_shows_members_roles_and_typing(tmp_path: Path) -> None:
    received: list[tuple[str, Any]] = []
    async with running_host() as hosted, hosted.client("ann", name="zed", **record_notifications(received)) as ann:
        one = await open_session(ann, tmp_path)
        await hosted.host.session_roles.set_role(one.id, "ben", "viewer")

        def there() -> list[tuple[str, str, str, str]]:
            last: dict[str, Any] = next(
                (params for name, params in reversed(received) if name == "presence"), {"members": []}
            )
            return [(each["user"], each["role"], each["state"], each["client"]) for each in last["members"]]

        async with hosted.client("ben", name="vim") as ben:
            await ben.resume_session(one.id, "/")
            await until(lambda: len(there()) == 2)
            assert there() == [("ann", "admin", "here", "zed"), ("ben", "viewer", "here", "vim")]
            ben.notify("_dragoman/presence", {"sessionId": one.id, "state": "typing"})
            await until(lambda: there()[-1][2] == "typing")
            await hosted.host.session_roles.set_role(one.id, "ben", "editor")
            await hosted.host.apply_role_changes(one.id)
            await until(lambda: there()[-1][1] == "editor")
        await until(lambda: [each[0] for each in there()] == ["ann"])


async def test_an_admin_changes_roles_and_removes_members(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann, hosted.client("ben") as ben:
        one = await open_session(ann, tmp_path)
        change = {"sessionId": one.id, "user": "ben", "role": "editor"}
        assert (await denied(ben.request("_dragoman/set_role", change))).kind == Kind.SESSION_NOT_FOUND
        await ann.request("_dragoman/set_role", change)
        two = await ben.resume_session(one.id, "/")
        assert await two.ask("x") == "heard x"
        assert (await denied(ben.request("_dragoman/set_role", change))).kind == Kind.PERMISSION_DENIED
        await ann.request("_dragoman/set_role", {**change, "role": None})
        assert (await denied(two.ask("y"))).kind == Kind.SESSION_NOT_FOUND
        assert (await denied(ben.resume_session(one.id, "/"))).kind == Kind.SESSION_NOT_FOUND


async def test_prompts_past_the_limit_are_refused(tmp_path: Path) -> None:
    async with running_host(limits=HostLimits(max_prompts=1)) as hosted, hosted.client("ann") as ann:
        one = await open_session(ann, tmp_path)
        prompt = {"sessionId": one.id, "prompt": [{"type": "text", "text": "wait gate"}]}
        tasks = [asyncio.ensure_future(ann.request("session/prompt", prompt)) for _ in range(3)]
        assert (await denied(tasks[2])).kind == Kind.RATE_LIMITED
        hosted.agents[-1].gates.setdefault("gate", asyncio.Event()).set()  # type: ignore[attr-defined]
        assert [(await task).stop_reason for task in tasks[:2]] == ["end_turn"] * 2
