"""Questions in a room: to all who may answer, to those who come later, and what becomes of them with nobody there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.host.limits import HostLimits
from tests.host.auth.test_roles import hearing
from tests.host.memory_host import Hosted, hosting, opened, until


class Person:
    """Somebody who is asked, and answers when the test says so."""

    def __init__(self) -> None:
        self.asked = 0
        self.withdrawn = 0
        self._answers: list[asyncio.Future[str | None]] = []

    async def __call__(self, params: Any) -> str | None:
        self.asked += 1
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        try:
            word = await answer
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise
        return next((each.option_id for each in params.options if each.kind.startswith(word)), None) if word else None

    def say(self, word: str | None) -> None:
        self._answers.pop(0).set_result(word)


async def ask(hosted: Hosted, remote: Any, session: Any) -> None:
    """Prompt for a question, and wait until it is open; nobody waits for the end."""
    remote.notify("session/prompt", {"sessionId": session.id, "prompt": [{"type": "text", "text": "ask"}]})
    await until(lambda: hosted.room.questions.are_open)


async def answer_of(hosted: Hosted, id: str) -> tuple[str, str, str]:
    """What the agent said, which outcome it was told, and by whom."""
    await until(lambda: hosted.room.queue.is_empty)
    log = await hosted.house.store.read(id)
    decided = next(entry for entry in log if entry.kind == "decided")
    text = "".join(
        entry.body["content"]["text"]
        for entry in log
        if entry.kind == "update" and entry.body["sessionUpdate"] == "agent_message_chunk"
    )
    return text, decided.body["outcome"]["outcome"], decided.actor


@pytest.mark.item("004-76")
async def test_the_first_answer_wins_and_the_others_see_who_decided(tmp_path: Path) -> None:

    heard: list[tuple[str, Any]] = []
    ann, ben = Person(), Person()
    async with (
        hosting() as hosted,
        hosted.client("ann", permission=ann, **hearing(heard)) as one,
        hosted.client("ben", permission=ben) as two,
    ):
        session = await opened(one, tmp_path)
        await hosted.house.session_roles.set_role(session.id, "ben", "editor")
        await two.resume(session.id, "/")
        await ask(hosted, one, session)
        await until(lambda: ann.asked and ben.asked)
        ben.say("allow")
        await until(lambda: ann.withdrawn)
        assert await answer_of(hosted, session.id) == ("yes", "selected", "ben")
        await until(lambda: any(name == "permission_resolved" for name, _ in heard))
        resolved = next(params for name, params in heard if name == "permission_resolved")
        assert (resolved["by"], resolved["outcome"]["outcome"]) == ("ben", "selected")
        assert resolved["sessionId"] == session.id


async def test_two_who_answer_at_the_same_moment_decide_once(tmp_path: Path) -> None:

    ann, ben = Person(), Person()
    async with hosting() as hosted, hosted.client(permission=ann) as one, hosted.client(permission=ben) as two:
        session = await opened(one, tmp_path)
        await two.resume(session.id, "/")
        await ask(hosted, one, session)
        await until(lambda: ann.asked and ben.asked)
        ben.say("reject")
        ann.say("allow")
        await answer_of(hosted, session.id)
        log = await hosted.house.store.read(session.id)
        assert [entry.kind for entry in log if entry.kind in ("asked", "decided")] == ["asked", "decided"]


@pytest.mark.parametrize("policy", ["full", "pending_only"])
async def test_a_question_outlives_everybody_and_is_put_to_who_comes_back(policy: str, tmp_path: Path) -> None:

    first, second = Person(), Person()
    async with hosting() as hosted:
        async with hosted.client(permission=first) as one:
            session = await opened(one, tmp_path)
            await ask(hosted, one, session)
            await until(lambda: first.asked)
        await until(lambda: not hosted.room.members)
        assert hosted.room.questions.are_open
        async with hosted.client(permission=second) as two:
            await two.request("session/attach", {"sessionId": session.id, "historyPolicy": policy})
            await until(lambda: second.asked)
            second.say("allow")
            assert (await answer_of(hosted, session.id))[0] == "yes"


async def test_unattended_questions_are_denied_where_the_house_does_not_wait(tmp_path: Path) -> None:

    async with hosting(bounds=HostLimits(waits_unattended=False)) as hosted:
        async with hosted.client(permission=Person()) as one:
            session = await opened(one, tmp_path)
            await ask(hosted, one, session)
        assert await answer_of(hosted, session.id) == ("no", "selected", "policy")


async def test_the_deadline_runs_only_while_somebody_is_there_who_may_answer(tmp_path: Path) -> None:

    async with hosting(bounds=HostLimits(answer_timeout=0.3)) as hosted, hosted.client("vic") as vic:
        async with hosted.client(permission=Person()) as one:
            session = await opened(one, tmp_path)
            await hosted.house.session_roles.set_role(session.id, "vic", "viewer")
            await vic.resume(session.id, "/")
            await ask(hosted, one, session)
        await asyncio.sleep(0.4)  # longer than the patience: the time is what is tested here
        assert hosted.room.questions.are_open  # a viewer is no reason to hurry
        async with hosted.client(permission=Person()) as again:
            await again.resume(session.id, "/")
            assert await answer_of(hosted, session.id) == ("no", "selected", "policy")


async def test_the_deadline_stands_still_while_the_only_one_who_may_answer_has_no_socket(tmp_path: Path) -> None:

    async with hosting(bounds=HostLimits(answer_timeout=0.3)) as hosted, hosted.client(permission=Person()) as one:
        session = await opened(one, tmp_path)
        (desk,) = hosted.house.clients
        desk._on_presence(False)
        await ask(hosted, one, session)
        await asyncio.sleep(0.4)  # longer than the patience: the time is what is tested here
        assert hosted.room.questions.are_open
        desk._on_presence(True)
        assert await answer_of(hosted, session.id) == ("no", "selected", "policy")


async def test_who_closes_the_question_leaves_it_to_the_others_and_the_last_closes_it(tmp_path: Path) -> None:

    ann, ben = Person(), Person()
    async with hosting() as hosted, hosted.client(permission=ann) as one, hosted.client(permission=ben) as two:
        session = await opened(one, tmp_path)
        await two.resume(session.id, "/")
        await ask(hosted, one, session)
        await until(lambda: ann.asked and ben.asked)
        ann.say(None)
        await asyncio.sleep(0)
        assert hosted.room.questions.are_open
        ben.say(None)
        assert await answer_of(hosted, session.id) == ("no", "cancelled", "ann")


async def test_cancelling_the_turn_takes_the_question_back(tmp_path: Path) -> None:

    ann = Person()
    async with hosting() as hosted, hosted.client(permission=ann) as one, hosted.client(permission=Person()) as two:
        session = await opened(one, tmp_path)
        other = await two.resume(session.id, "/")
        await ask(hosted, one, session)
        await until(lambda: ann.asked)
        other.cancel()
        await until(lambda: hosted.room.queue.is_empty)
        assert not hosted.room.questions.are_open
        await until(lambda: ann.withdrawn)
        log = await hosted.house.store.read(session.id)
        assert log[-1].body["stopReason"] == "cancelled"


async def test_a_question_of_an_agent_that_dies_is_taken_back(tmp_path: Path) -> None:

    ann = Person()
    async with hosting() as hosted, hosted.client(permission=ann) as one:
        session = await opened(one, tmp_path)
        await ask(hosted, one, session)
        await until(lambda: ann.asked)
        await hosted.started[-1].transport.close("dead")
        await until(lambda: ann.withdrawn)
        await until(lambda: hosted.room.queue.is_empty)
        assert not hosted.room.questions.are_open
        assert await session.ask("x") == "heard x"


async def test_a_form_goes_to_those_who_can_show_one(tmp_path: Path) -> None:
    def curious() -> Agent:
        agent = Agent("curious")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            reply = await turn.elicit("Which colour?", form={"colour": str})
            await turn.say(f"{reply.action} {reply.content}")

        return agent

    async with (
        hosting(curious) as hosted,
        hosted.client() as plain,
        hosted.client("ann", elicit=lambda _: {"colour": "red"}) as able,
    ):
        session = await opened(plain, tmp_path)
        await able.resume(session.id, "/")
        assert "red" in await session.ask("x")
        log = await hosted.house.store.read(session.id)
        assert [entry.actor for entry in log if entry.kind == "decided"] == ["ann"]


async def test_a_form_that_no_client_here_can_show_is_closed_at_once(tmp_path: Path) -> None:
    def curious() -> Agent:
        agent = Agent("curious")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            await turn.say((await turn.elicit("Who?", url="https://example.org/")).action)

        return agent

    async with hosting(curious) as hosted, hosted.client("ann") as ann:
        session = await opened(ann, tmp_path)
        assert await session.ask("x", timeout=20.0) == "cancel"
