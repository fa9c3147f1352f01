"""A node takes a session over while the store fails, or with more prompts than a room may have: nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import StoreFault
from dragoman.host.fleet import fleet as fleet_module
from dragoman.host.room.prompt_queue import QueuedPrompt
from dragoman.schema.content import TextContent
from tests.host.fleet.memory_fleet import Node, running_fleet
from tests.host.fleet.test_ownership import send_prompt
from tests.host.memory_host import messages_of, open_session, until

AWAY = StoreFault("away", "the store does not answer")


async def take_over(node: Node, session: str) -> None:
    """Run a session at a node, although the node before is alive."""
    await node.fleet.ownership._take_over(node.distant(session), await node.host.store.owner(session))


async def fail(*_: Any, **__: Any) -> Any:
    raise AWAY


async def test_members_stay_where_they_were_if_a_takeover_cannot_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            distant = await far.load_session(session.id, str(tmp_path))
            send_prompt(near, session.id, "wait gate")
            await until(lambda: "waiting" in str(messages_of(distant)))
            room = second.distant(session.id)
            with monkeypatch.context() as patch:
                patch.setattr(second.host.store, "append", fail)  # the end of the interrupted turn
                with pytest.raises(StoreFault):
                    await take_over(second, session.id)
            assert second.distant(session.id) is room
            (member,) = room.members.values()
            assert id(member.client.rooms[session.id]) == id(room)
            await take_over(second, session.id)
            assert await distant.ask("next") == "heard next"
            assert second.owns(session.id)


async def test_a_prompt_is_answered_although_the_roles_could_not_be_read_at_a_takeover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            await far.load_session(session.id, str(tmp_path))
            room = second.distant(session.id)
            await room.attach_lock.acquire()
            room.link = None
            prompts = [send_prompt(far, session.id, text) for text in ("one", "two")]
            await until(lambda: len(room.prompts) == 2)
            with monkeypatch.context() as patch:
                patch.setattr(second.host.session_roles, "role_of", fail)
                with pytest.raises(StoreFault):
                    await take_over(second, session.id)
            room.attach_lock.release()
            assert [(await prompt).stop_reason for prompt in prompts] == ["end_turn", "end_turn"]


async def test_a_role_that_changed_without_a_signal_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_module, "ROLES_INTERVAL", 0.05)
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client("ann") as ann, second.client("ben", principal={"is_local": False}) as ben:
            session = await open_session(ann, tmp_path)
            await first.host.session_roles.set_role(session.id, "ben", "editor")
            await ben.load_session(session.id, str(tmp_path))
            owner, room = first.host.rooms[session.id], second.distant(session.id)
            assert (len(owner.members), len(room.members)) == (2, 1)
            await first.host.session_roles.set_role(session.id, "ben", None)
            await until(lambda: (len(owner.members), len(room.members)) == (1, 0))


async def test_all_prompts_of_a_full_queue_are_taken_over(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            await far.load_session(session.id, str(tmp_path))
            room = second.distant(session.id)
            (client,) = room.members
            answers: list[Any] = []
            count = second.host.limits.max_prompts + 1  # those that waited, and the one that was about to run
            for number in range(count):
                blocks = [TextContent(text=f"prompt {number}")]
                prompt = QueuedPrompt(f"p{number}", "ann", client, blocks, done=lambda *answer: answers.append(answer))
                room.take_prompt(prompt)
            await until(lambda: len(answers) == count)
            assert {(result.stop_reason, error) for result, error in answers} == {("end_turn", None)}


async def test_a_node_remembers_no_client_of_another_node_that_is_in_no_session(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            for number in range(3):
                await far.request("session/set_title", {"sessionId": session.id, "title": f"title {number}"})
            assert first.host.rooms[session.id].state.title == "title 2"
            assert not first.fleet.distant_clients._clients
