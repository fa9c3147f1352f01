"""Prompts of users who may not prompt any more: those that wait do not run, and the running one is cancelled."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import Kind
from tests.host.auth.test_roles import denied
from tests.host.fleet.memory_fleet import running_fleet
from tests.host.http.test_app import hosted_app
from tests.host.memory_host import Hosted, messages_of, open_session, running_host, until


def open_gate(hosted: Hosted) -> None:
    hosted.agents[-1].gates.setdefault("gate", asyncio.Event()).set()  # type: ignore[attr-defined]


def prompt_params(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


async def logged_prompts(hosted: Hosted, session: str) -> list[str]:
    entries = await hosted.host.store.read(session)
    return [entry.body["prompt"][0]["text"] for entry in entries if entry.kind == "prompt"]


def prompts_in(session: Any) -> list[str]:
    return [text for who, text in messages_of(session) if who == "user"]


@pytest.mark.parametrize("role", [None, "viewer"])
async def test_waiting_prompts_of_a_user_who_may_not_prompt_any_more_do_not_run(
    role: str | None, tmp_path: Path
) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann, hosted.client("ben") as ben:
        one = await open_session(ann, tmp_path)
        await hosted.host.session_roles.set_role(one.id, "ben", "editor")
        two = await ben.load_session(one.id, str(tmp_path))
        running = asyncio.ensure_future(one.ask("wait gate"))
        await until(lambda: ("agent", "waiting for gate") in messages_of(one))
        refused = asyncio.ensure_future(two.ask("mine"))
        await until(lambda: len(hosted.room.queue.waiting) == 1)
        last = asyncio.ensure_future(ann.request("session/prompt", prompt_params(one.id, "last")))
        await until(lambda: len(hosted.room.queue.waiting) == 2)
        await ann.request("_dragoman/set_role", {"sessionId": one.id, "user": "ben", "role": role})
        error = await denied(refused)
        assert (error.kind, "may not prompt in this session any more" in error.message) == (
            Kind.PERMISSION_DENIED,
            True,
        )
        assert [each.user for each in hosted.room.queue.waiting] == ["ann"]
        open_gate(hosted)
        assert (await running).startswith("waiting for gate; gate came")
        assert (await last).stop_reason == "end_turn"
        assert await logged_prompts(hosted, one.id) == ["wait gate", "last"]


@pytest.mark.parametrize("role", [None, "viewer"])
async def test_the_running_turn_of_a_user_who_may_not_prompt_any_more_is_cancelled(
    role: str | None, tmp_path: Path
) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann, hosted.client("ben") as ben:
        one = await open_session(ann, tmp_path)
        await hosted.host.session_roles.set_role(one.id, "ben", "editor")
        two = await ben.load_session(one.id, str(tmp_path))
        refused = asyncio.ensure_future(two.ask("wait gate"))
        await until(lambda: ("agent", "waiting for gate") in messages_of(one))
        await ann.request("_dragoman/set_role", {"sessionId": one.id, "user": "ben", "role": role})
        assert (await denied(refused)).kind == Kind.PERMISSION_DENIED
        assert (await ann.request("session/prompt", prompt_params(one.id, "next"))).stop_reason == "end_turn"
        ends = [entry.body for entry in await hosted.host.store.read(one.id) if entry.kind == "turn_ended"]
        assert [body["stopReason"] for body in ends] == ["cancelled", "end_turn"]


@pytest.mark.parametrize(("role", "expected"), [("editor", ["wait gate", "mine"]), (None, ["wait gate"])])
async def test_prompts_of_a_client_that_disconnected_go_on_until_its_user_is_removed(
    role: str | None, expected: list[str], tmp_path: Path
) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann:
        one = await open_session(ann, tmp_path)
        await hosted.host.session_roles.set_role(one.id, "ben", "editor")
        running = asyncio.ensure_future(one.ask("wait gate"))
        await until(lambda: hosted.room.queue.running is not None)
        async with hosted.client("ben") as ben:
            await ben.resume_session(one.id, "/")
            ben.notify("session/prompt", prompt_params(one.id, "mine"))
            await until(lambda: hosted.room.queue.waiting)
        await until(lambda: len(hosted.room.members) == 1)
        await ann.request("_dragoman/set_role", {"sessionId": one.id, "user": "ben", "role": role})
        open_gate(hosted)
        await running
        await until(lambda: hosted.room.queue.is_empty)
        assert await logged_prompts(hosted, one.id) == expected


@pytest.mark.parametrize("is_link", [True, False])
async def test_prompts_that_were_sent_with_a_revoked_token_do_not_run(
    is_link: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.host.http.app.REVOCATION_CHECK_INTERVAL", 0.01)
    async with hosted_app(tmp_path) as at, at.hosted.client("ann") as ann:
        await at.hosted.host.session_roles.set_role(at.session, "cid", "editor")
        one = await ann.resume_session(at.session, "/")
        if is_link:
            _, token = at.tokens.create_share_link(at.session, "editor", 600, name="cid")
        else:
            _, token = at.tokens.create("cid", "editor")
        running = asyncio.ensure_future(one.ask("wait gate"))
        await until(lambda: at.hosted.room.queue.running is not None)
        principal = {"is_local": False, "role": "editor", "token_id": token.id, "session": token.session}
        async with at.hosted.client("cid", principal=principal) as cid:
            await cid.resume_session(at.session, "/")
            cid.notify("session/prompt", prompt_params(at.session, "with a token"))
            await until(lambda: at.hosted.room.queue.waiting)
        at.app.check_revoked()
        await until(lambda: at.app._revocation_timer is not None)
        assert at.hosted.room.queue.waiting, "a valid token changes nothing, also when its client is gone"
        at.tokens.revoke(token.id)
        await until(lambda: not at.hosted.room.queue.waiting)
        open_gate(at.hosted)
        await running
        assert await logged_prompts(at.hosted, at.session) == ["the roof leaks", "wait gate"]


@pytest.mark.parametrize(("is_link", "count"), [(True, 0), (False, 1)])
async def test_prompts_of_an_expired_link_do_not_run_and_those_of_an_expired_token_do(
    is_link: bool, count: int, tmp_path: Path
) -> None:
    async with hosted_app(tmp_path) as at, at.hosted.client("ann") as ann:
        await at.hosted.host.session_roles.set_role(at.session, "cid", "editor")
        one = await ann.resume_session(at.session, "/")
        if is_link:
            _, token = at.tokens.create_share_link(at.session, "editor", 1, name="cid")
        else:
            _, token = at.tokens.create("cid", "editor", seconds=1)
        running = asyncio.ensure_future(one.ask("wait gate"))
        await until(lambda: at.hosted.room.queue.running is not None)
        principal = {"is_local": False, "role": "editor", "token_id": token.id, "session": token.session}
        async with at.hosted.client("cid", principal={**principal, "expires_at": token.expires}) as cid:
            await cid.resume_session(at.session, "/")
            cid.notify("session/prompt", prompt_params(at.session, "with a token"))
            await until(lambda: at.hosted.room.queue.waiting)
        assert token.expires is not None
        await until(lambda: time.time() > (token.expires or 0))
        await at.app._disconnect_revoked()
        assert len(at.hosted.room.queue.waiting) == count
        open_gate(at.hosted)
        await running


@pytest.mark.parametrize("role", [None, "viewer"])
async def test_a_prompt_from_another_node_is_refused_by_the_owner(role: str | None) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client("ann") as ann, second.client("ben", principal={"is_local": False}) as ben:
            one = await open_session(ann)
            await first.host.session_roles.set_role(one.id, "ben", "editor")
            two = await ben.load_session(one.id, "/tmp")
            running = asyncio.ensure_future(one.ask("wait gate"))
            await until(lambda: ("agent", "waiting for gate") in messages_of(one))
            refused = asyncio.ensure_future(two.ask("mine"))
            await until(lambda: first.host.rooms[one.id].queue.waiting)
            await ann.request("_dragoman/set_role", {"sessionId": one.id, "user": "ben", "role": role})
            assert (await denied(refused)).kind == Kind.PERMISSION_DENIED
            open_gate(first.hosted)
            await running
            assert prompts_in(one) == ["wait gate"]
            assert not second.distant(one.id).prompts


async def test_a_node_refuses_prompts_that_it_did_not_offer_yet() -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client("ann") as ann, second.client("ben", principal={"is_local": False}) as ben:
            one = await open_session(ann)
            await first.host.session_roles.set_role(one.id, "ben", "editor")
            two = await ben.load_session(one.id, "/tmp")
            room = second.distant(one.id)
            await room.attach_lock.acquire()
            room.link, link = None, room.link
            refused = asyncio.ensure_future(two.ask("mine"))
            await until(lambda: room.prompts)
            await first.host.session_roles.set_role(one.id, "ben", "viewer")
            await second.host.apply_role_changes(one.id)
            assert (await denied(refused)).kind == Kind.PERMISSION_DENIED
            room.link = link
            room.attach_lock.release()
            assert await one.ask("next") == "heard next"
            assert prompts_in(one) == ["next"]


async def test_a_node_that_takes_a_session_over_reads_roles_before_it_runs_prompts() -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client("ann") as ann, second.client("ben", principal={"is_local": False}) as ben:
            one = await open_session(ann)
            await first.host.session_roles.set_role(one.id, "ben", "editor")
            two = await ben.load_session(one.id, "/tmp")
            room = second.distant(one.id)
            await room.attach_lock.acquire()
            room.link = None
            refused = asyncio.ensure_future(two.ask("mine"))
            await until(lambda: room.prompts)
            await first.host.session_roles.set_role(one.id, "ben", "viewer")
            await second.fleet.ownership._take_over(room, await second.host.store.owner(one.id))
            room.attach_lock.release()
            assert (await denied(refused)).kind == Kind.PERMISSION_DENIED
            members = second.host.rooms[one.id].members
            await until(lambda: [member.role for member in members.values()] == ["viewer"])
            assert not [entry for entry in await second.host.store.read(one.id) if entry.kind == "prompt"]
