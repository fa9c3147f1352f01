"""Questions in a room: sent to all who may answer, also to those who join later; and without members."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.config.host_section import HostSection
from dragoman.config.paths import user_paths
from dragoman.host.limits import HostLimits
from dragoman.host.settings import guard_factory
from dragoman.policy.decide import Policy
from dragoman.policy.decision import DENY
from dragoman.policy.question import Operation
from dragoman.policy.rules import Rule, RuleFile
from dragoman.roles.client.permission.guard import Guard
from dragoman.store.audit import AuditLog
from tests.host.auth.test_roles import record_notifications
from tests.host.memory_host import Hosted, open_session, running_host, until


class Person:
    """A user who is asked, and answers when the test says so."""

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
    """Send a prompt that asks a question, and wait until the question is open."""
    remote.notify("session/prompt", {"sessionId": session.id, "prompt": [{"type": "text", "text": "ask"}]})
    await until(lambda: hosted.room.questions.has_open)


async def answer_of(hosted: Hosted, id: str) -> tuple[str, str, str]:
    """Return what the agent said, the outcome it got, and who decided."""
    await until(lambda: hosted.room.queue.is_empty)
    log = await hosted.host.store.read(id)
    decided = next(entry for entry in log if entry.kind == "decided")
    text = "".join(
        entry.body["content"]["text"]
        for entry in log
        if entry.kind == "update" and entry.body["sessionUpdate"] == "agent_message_chunk"
    )
    return text, decided.body["outcome"]["outcome"], decided.actor


@pytest.mark.item("004-76")
async def test_the_first_answer_wins_and_the_others_see_who_decided(tmp_path: Path) -> None:
    received: list[tuple[str, Any]] = []
    ann, ben = Person(), Person()
    async with (
        running_host() as hosted,
        hosted.client("ann", permission=ann, **record_notifications(received)) as one,
        hosted.client("ben", permission=ben) as two,
    ):
        session = await open_session(one, tmp_path)
        await hosted.host.session_roles.set_role(session.id, "ben", "editor")
        await two.resume_session(session.id, "/")
        await ask(hosted, one, session)
        await until(lambda: ann.asked and ben.asked)
        ben.say("allow")
        await until(lambda: ann.withdrawn)
        assert await answer_of(hosted, session.id) == ("yes", "selected", "ben")
        await until(lambda: any(name == "permission_resolved" for name, _ in received))
        resolved = next(params for name, params in received if name == "permission_resolved")
        assert (resolved["by"], resolved["outcome"]["outcome"]) == ("ben", "selected")
        assert resolved["sessionId"] == session.id


async def test_simultaneous_answers_decide_once(tmp_path: Path) -> None:
    ann, ben = Person(), Person()
    async with running_host() as hosted, hosted.client(permission=ann) as one, hosted.client(permission=ben) as two:
        session = await open_session(one, tmp_path)
        await two.resume_session(session.id, "/")
        await ask(hosted, one, session)
        await until(lambda: ann.asked and ben.asked)
        ben.say("reject")
        ann.say("allow")
        await answer_of(hosted, session.id)
        log = await hosted.host.store.read(session.id)
        assert [entry.kind for entry in log if entry.kind in ("asked", "decided")] == ["asked", "decided"]


@pytest.mark.parametrize("policy", ["full", "pending_only"])
async def test_a_question_survives_disconnects_and_is_asked_again(policy: str, tmp_path: Path) -> None:
    first, http2_socket = Person(), Person()
    async with running_host() as hosted:
        async with hosted.client(permission=first) as one:
            session = await open_session(one, tmp_path)
            await ask(hosted, one, session)
            await until(lambda: first.asked)
        await until(lambda: not hosted.room.members)
        assert hosted.room.questions.has_open
        async with hosted.client(permission=http2_socket) as two:
            await two.request("session/attach", {"sessionId": session.id, "historyPolicy": policy})
            await until(lambda: http2_socket.asked)
            http2_socket.say("allow")
            assert (await answer_of(hosted, session.id))[0] == "yes"


async def test_unattended_questions_are_denied_if_so_configured(tmp_path: Path) -> None:
    async with running_host(limits=HostLimits(waits_unattended=False)) as hosted:
        async with hosted.client(permission=Person()) as one:
            session = await open_session(one, tmp_path)
            await ask(hosted, one, session)
        assert await answer_of(hosted, session.id) == ("no", "selected", "policy")


async def test_the_deadline_runs_only_while_an_eligible_member_is_present(tmp_path: Path) -> None:
    async with running_host(limits=HostLimits(answer_timeout=0.3)) as hosted, hosted.client("vic") as vic:
        async with hosted.client(permission=Person()) as one:
            session = await open_session(one, tmp_path)
            await hosted.host.session_roles.set_role(session.id, "vic", "viewer")
            await vic.resume_session(session.id, "/")
            await ask(hosted, one, session)
        await asyncio.sleep(0.4)  # longer than the timeout: the time is what is tested here
        assert hosted.room.questions.has_open  # a viewer does not start the deadline
        async with hosted.client(permission=Person()) as again:
            await again.resume_session(session.id, "/")
            assert await answer_of(hosted, session.id) == ("no", "selected", "policy")


async def test_the_deadline_is_paused_while_the_only_eligible_member_has_no_socket(tmp_path: Path) -> None:
    async with running_host(limits=HostLimits(answer_timeout=0.3)) as hosted, hosted.client(permission=Person()) as one:
        session = await open_session(one, tmp_path)
        (client,) = hosted.host.clients
        client._on_presence(False)
        await ask(hosted, one, session)
        await asyncio.sleep(0.4)  # longer than the timeout: the time is what is tested here
        assert hosted.room.questions.has_open
        client._on_presence(True)
        assert await answer_of(hosted, session.id) == ("no", "selected", "policy")


async def test_a_question_stays_open_until_the_last_member_dismisses_it(tmp_path: Path) -> None:
    ann, ben = Person(), Person()
    async with running_host() as hosted, hosted.client(permission=ann) as one, hosted.client(permission=ben) as two:
        session = await open_session(one, tmp_path)
        await two.resume_session(session.id, "/")
        await ask(hosted, one, session)
        await until(lambda: ann.asked and ben.asked)
        ann.say(None)
        await asyncio.sleep(0)
        assert hosted.room.questions.has_open
        ben.say(None)
        assert await answer_of(hosted, session.id) == ("no", "cancelled", "ann")


async def test_cancelling_the_turn_withdraws_the_question(tmp_path: Path) -> None:
    ann = Person()
    async with (
        running_host() as hosted,
        hosted.client(permission=ann) as one,
        hosted.client(permission=Person()) as two,
    ):
        session = await open_session(one, tmp_path)
        other = await two.resume_session(session.id, "/")
        await ask(hosted, one, session)
        await until(lambda: ann.asked)
        other.cancel()
        await until(lambda: hosted.room.queue.is_empty)
        assert not hosted.room.questions.has_open
        await until(lambda: ann.withdrawn)
        log = await hosted.host.store.read(session.id)
        assert log[-1].body["stopReason"] == "cancelled"


async def test_a_question_of_a_crashed_agent_is_withdrawn(tmp_path: Path) -> None:
    ann = Person()
    async with running_host() as hosted, hosted.client(permission=ann) as one:
        session = await open_session(one, tmp_path)
        await ask(hosted, one, session)
        await until(lambda: ann.asked)
        await hosted.started[-1].transport.close("dead")
        await until(lambda: ann.withdrawn)
        await until(lambda: hosted.room.queue.is_empty)
        assert not hosted.room.questions.has_open
        assert await session.ask("x") == "heard x"


async def test_a_form_is_sent_to_clients_that_support_forms(tmp_path: Path) -> None:
    def asking_agent() -> Agent:
        agent = Agent("curious")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            reply = await turn.elicit("Which color?", form={"color": str})
            await turn.say(f"{reply.action} {reply.content}")

        return agent

    async with (
        running_host(asking_agent) as hosted,
        hosted.client() as plain,
        hosted.client("ann", elicit=lambda _: {"color": "red"}) as full_agent,
    ):
        session = await open_session(plain, tmp_path)
        await full_agent.resume_session(session.id, "/")
        assert "red" in await session.ask("x")
        log = await hosted.host.store.read(session.id)
        assert [entry.actor for entry in log if entry.kind == "decided"] == ["ann"]


async def test_a_form_that_no_client_supports_is_closed_at_once(tmp_path: Path) -> None:
    def asking_agent() -> Agent:
        agent = Agent("curious")

        @agent.prompt
        async def answer(turn: Turn) -> None:
            await turn.say((await turn.elicit("Who?", url="https://example.org/")).action)

        return agent

    async with running_host(asking_agent) as hosted, hosted.client("ann") as ann:
        session = await open_session(ann, tmp_path)
        assert await session.ask("x", timeout=20.0) == "cancel"


def naming_by_id() -> Agent:
    agent = Agent("by id")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        async with turn.tool("Paint it", kind="edit", paths=[f"{turn.session.cwd}/wall.txt"], id="c1"):
            options = [
                {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                {"optionId": "no", "name": "No", "kind": "reject_once"},
            ]
            params = {"sessionId": turn.session.id, "toolCall": {"toolCallId": "c1"}, "options": options}
            result = await turn.session.connection.request_raw("session/request_permission", params)
            await turn.say(result["outcome"]["optionId"])

    return agent


async def test_a_question_by_id_only_is_decided_and_asked_with_what_was_announced(tmp_path: Path) -> None:
    asked: list[Any] = []

    def allow(params: Any) -> str:
        asked.append(params.tool_call)
        return "yes"

    async with running_host(naming_by_id) as hosted, hosted.client("ann", permission=allow) as ann:
        session = await open_session(ann, tmp_path)
        assert await session.ask("go") == "yes"
        assert [(call.title, call.kind) for call in asked] == [("Paint it", "edit")]
        assert asked[0].locations[0].path == f"{tmp_path}/wall.txt"
    rules = RuleFile(name="policy.toml", rules=(Rule(verdict=DENY, operations=frozenset({Operation.FILE_WRITE})),))
    deny = Policy(files=(rules,))
    async with (
        running_host(naming_by_id, make_guard=lambda ask: Guard(deny, ask=ask)) as hosted,
        hosted.client() as ann,
    ):
        assert await (await open_session(ann, tmp_path)).ask("go") == "no"


async def test_the_audit_log_names_the_session_as_its_members_know_it(tmp_path: Path) -> None:
    paths = user_paths({"HOME": str(tmp_path)})
    make_guard = guard_factory(HostSection(), paths)
    async with running_host(make_guard=make_guard) as hosted, hosted.client("ann", permission="allow") as ann:
        session = await open_session(ann, tmp_path)
        assert await session.ask("ask") == "yes"
        at_agent = hosted.room.agent.session
        assert at_agent is not None
    entries = AuditLog(paths.audit).entries()
    decided = [entry for entry in entries if entry["what"] == "decided"]
    assert [(entry["session"], entry["detail"]["agentSession"]) for entry in decided] == [(session.id, at_agent.id)]
    assert session.id != at_agent.id
