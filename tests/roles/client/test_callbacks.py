"""The callbacks of a client: permission by function or policy, forms and links by function, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from dragoman import Agent, Kind, ProtocolError, Turn, connect
from dragoman.roles.client.callbacks import UserCallbacks
from dragoman.schema.elicitation import (
    CreateElicitationParams,
    CreateElicitationResult,
    ElicitationSchema,
    StringProperty,
)
from dragoman.schema.permission import PermissionOption, RequestPermissionParams
from dragoman.testing import ScriptedPeer, connect_in_memory
from dragoman.transport.memory import memory_pair
from tests.roles.translated_pair import CWD, run, translated

OPTIONS = [
    PermissionOption(option_id=f"o{number}", name=kind, kind=kind)
    for number, kind in enumerate(["allow_once", "allow_always", "reject_once", "reject_always"])
]
SIGN_IN = "https://login.example.org/device?code=ABCD-EFGH&next=%2Fhome#step-2"


# --- permission -----------------------------------------------------------------------------------------------


def asking_agent() -> Agent:
    agent = Agent("asker", version="1")

    @agent.prompt
    async def ask(turn: Turn) -> None:
        async with turn.tool("Write a", kind="edit", id="c1", paths=[f"{CWD}/a"]) as call:
            answer = await call.ask_permission("because", OPTIONS)
        await turn.say(f"{answer.kind} {answer.option_id}".strip())

    return agent


@pytest.mark.parametrize("wrong", [True, "bogus"])
async def test_a_permission_function_that_returns_no_id_of_the_question_is_told_what_to_return(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect_in_memory(asking_agent(), permission=lambda _: cast(Any, wrong)) as client:
        session = await client.open_session(CWD)
        with pytest.raises(ProtocolError, match=f"function returned {wrong!r}; return one of 'o0', 'o1'"):
            await session.ask("go")
    assert f"the permission function returned {wrong!r}" in caplog.text


async def test_a_question_comes_after_the_updates_that_the_agent_sent_before_it() -> None:
    seen: list[str] = []

    def answer(question: RequestPermissionParams) -> str:
        seen.append("question")
        return "o0"

    async with connect_in_memory(asking_agent(), permission=answer) as client:
        session = await client.open_session(CWD)
        async with session.prompt("go") as turn:
            async for update in turn:
                for _ in range(5):  # a reader that takes its time
                    await asyncio.sleep(0)
                seen.append(type(update).__name__)
    assert seen[:3] == ["ToolCallStart", "ToolCallProgress", "question"]


async def test_a_question_does_not_wait_forever_for_a_reader_that_waits_for_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.roles.client.callbacks.READER_TIMEOUT", 0.05)
    answered = asyncio.Event()

    def answer(question: RequestPermissionParams) -> str:
        answered.set()
        return "o0"

    async with connect_in_memory(asking_agent(), permission=answer) as client:
        session = await client.open_session(CWD)
        async with session.prompt("go") as turn:
            async for _ in turn:
                await answered.wait()
    assert turn.stop_reason == "end_turn"


QUESTION = {
    "sessionId": "s",
    "toolCall": {"toolCallId": "c1", "title": "Write a", "kind": "edit"},
    "options": [{"optionId": option.option_id, "name": option.name, "kind": option.kind} for option in OPTIONS],
}


async def with_banjo_agent(
    script: Callable[[ScriptedPeer], Awaitable[None]], cancel: asyncio.Event | None = None, **options: Any
) -> None:
    """Let our client prompt a scripted banjo agent, and cancel the turn on demand."""
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def play() -> None:
        answer = await peer.expect(method="initialize")
        peer.send({"jsonrpc": "2.0", "id": answer["id"], "result": {"protocolVersion": 1}})
        answer = await peer.expect(method="session/new")
        peer.send({"jsonrpc": "2.0", "id": answer["id"], "result": {"sessionId": "s"}})
        prompt = await peer.expect(method="session/prompt")
        await script(peer)
        reason = "cancelled" if cancel else "end_turn"
        peer.send({"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": reason}})

    playing = asyncio.create_task(play())
    async with connect(ours, dialect="banjo", **options) as remote:
        session = await remote.open_session(CWD)
        async with session.prompt("go") as turn:
            if cancel is not None:
                await cancel.wait()
                turn.cancel()
            await playing


class Policy:
    """Allow everything about one file, and record the questions."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked: list[str] = []

    def __call__(self, question: RequestPermissionParams) -> str | None:
        call = question.tool_call
        self.asked.append(str(call.title))
        wanted = "allow_once" if [place.path for place in call.locations or ()] == [self.path] else "reject_once"
        return next(option.option_id for option in question.options if option.kind == wanted)


@pytest.mark.parametrize("kind", range(4))
async def test_each_of_the_four_kinds_can_be_chosen_by_a_function(kind: int) -> None:

    async def choose(question: RequestPermissionParams) -> str | None:
        assert [option.kind for option in question.options] == [option.kind for option in OPTIONS]
        assert question.tool_call.tool_call_id == "c1"
        return question.options[kind].option_id

    async with connect_in_memory(asking_agent(), permission=choose) as remote:
        session = await remote.open_session(CWD)
        assert await session.ask("go") == f"{OPTIONS[kind].kind} {OPTIONS[kind].option_id}"
        assert session.tool_calls["c1"].status == ("completed" if kind < 2 else "failed")


@pytest.mark.item("003-12")
@pytest.mark.parametrize("kind", range(4))
async def test_a_banjo_permission_request_is_answered_with_the_selected_option(kind: int) -> None:
    async def choose(question: RequestPermissionParams) -> str | None:
        return question.options[kind].option_id

    async def script(peer: ScriptedPeer) -> None:
        answer = await peer.request(7, "session/request_permission", QUESTION)
        assert answer["result"] == {"outcome": {"outcome": "selected", "optionId": f"o{kind}"}}

    await with_banjo_agent(script, permission=choose)


@pytest.mark.item("003-12")
async def test_an_open_banjo_permission_request_is_answered_with_cancelled_when_the_turn_is_cancelled() -> None:
    asked = asyncio.Event()

    async def never(_: RequestPermissionParams) -> str | None:
        asked.set()
        await asyncio.Event().wait()
        return None

    async def script(peer: ScriptedPeer) -> None:
        answer = await peer.request(7, "session/request_permission", QUESTION)
        assert answer["result"] == {"outcome": {"outcome": "cancelled"}}
        assert peer.received[-2]["method"] == "session/cancel"

    await with_banjo_agent(script, asked, permission=never)


@pytest.mark.item("003-12")
async def test_a_question_of_our_agent_to_a_banjo_client_has_the_call_and_the_four_kinds() -> None:
    agent = asking_agent()
    agent.dialect = "banjo"
    ours, theirs = memory_pair()
    serving = agent.start_connection(theirs)
    client = ScriptedPeer(ours)
    info = {"protocolVersion": 1, "clientCapabilities": {}}
    await client.request(1, "initialize", info)
    made = await client.request(2, "session/new", {"cwd": CWD, "mcpServers": []})
    session = made["result"]["sessionId"]
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
    client.send({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt})
    answer = await client.receive()
    while answer.get("method") != "session/request_permission":
        answer = await client.receive()
    params = answer["params"]
    assert params["sessionId"] == session
    assert (params["toolCall"]["toolCallId"], params["toolCall"]["title"]) == ("c1", "Write a")
    assert params["options"] == [
        {"optionId": option.option_id, "name": option.name, "kind": option.kind} for option in OPTIONS
    ]
    chosen = {"outcome": {"outcome": "selected", "optionId": "o3"}}
    client.send({"jsonrpc": "2.0", "id": answer["id"], "result": chosen})
    while answer.get("id") != 3:
        answer = await client.receive()
    updates = [one["params"]["update"] for one in client.received if one.get("method") == "session/update"]
    assert updates[-1]["content"]["text"] == "reject_always o3"
    await serving.close()


@pytest.mark.parametrize(("path", "answer"), [(f"{CWD}/a", "allow_once o0"), (f"{CWD}/b", "reject_once o2")])
async def test_a_policy_is_an_object_that_can_be_called(path: str, answer: str) -> None:
    policy = Policy(path)
    async with connect_in_memory(asking_agent(), permission=policy) as remote:
        assert await (await remote.open_session(CWD)).ask("go") == answer
        assert policy.asked == ["Write a"]


@pytest.mark.parametrize(("wish", "answer"), [("allow", "allow_once o0"), ("deny", "reject_once o2")])
async def test_allow_and_deny_are_accepted_as_policies(wish: str, answer: str) -> None:
    async with connect_in_memory(asking_agent(), permission=wish) as remote:
        assert await (await remote.open_session(CWD)).ask("go") == answer


def test_another_string_is_rejected_at_once() -> None:
    with pytest.raises(ValueError, match="'allow' or 'deny'"):
        connect("agent", permission="perhaps")


@pytest.mark.parametrize(("client", "agent"), [("v1", "draft"), ("draft", "v1"), ("crow", "v1")])
async def test_a_policy_is_asked_through_a_translator(client: str, agent: str) -> None:
    asked: list[str] = []

    def allow(question: RequestPermissionParams) -> str | None:
        asked.append(question.tool_call.tool_call_id)
        return next(option.option_id for option in question.options if option.kind == "allow_once")

    async with translated(asking_agent(), client, agent, permission=allow) as remote:
        received = await (await remote.open_session(CWD)).ask("go")
        assert received.startswith("allow_once")
        assert len(asked) == 1


# --- forms and links ------------------------------------------------------------------------------------------


def form(session: str) -> CreateElicitationParams:
    fields: dict[str, Any] = {"name": StringProperty(title="Name")}
    schema = ElicitationSchema(properties=fields, required=["name"])
    return CreateElicitationParams(message="Who?", mode="form", session_id=session, requested_schema=schema)


def link(session: str) -> CreateElicitationParams:
    return CreateElicitationParams(message="Sign in", mode="url", session_id=session, elicitation_id="e1", url=SIGN_IN)


def eliciting_agent() -> Agent:
    agent = Agent("curious", version="1")

    @agent.prompt
    async def ask(turn: Turn) -> None:
        question = (link if turn.text == "url" else form)(turn.session.id)
        answer = await turn.session.request("elicitation/create", question)
        await turn.say(f"{answer.action} {answer.content or ''}".strip())

    return agent


@pytest.mark.parametrize(
    ("reply", "received"),
    [
        ({"name": "Ada"}, "accept {'name': 'Ada'}"),
        (False, "decline"),
        (None, "cancel"),
        (CreateElicitationResult(action="accept", content={"name": "Bo"}), "accept {'name': 'Bo'}"),
    ],
)
async def test_a_form_is_filled_declined_or_closed(reply: Any, received: str) -> None:
    asked: list[CreateElicitationParams] = []

    async def elicit(question: CreateElicitationParams) -> Any:
        asked.append(question)
        return reply

    async with connect_in_memory(eliciting_agent(), elicit=elicit) as remote:
        session = await remote.open_session(CWD)
        assert await session.ask("form") == received
        (question,) = asked
        assert (question.message, question.requested_schema) == ("Who?", form(session.id).requested_schema)


@pytest.mark.parametrize(("reply", "received"), [(True, "accept"), ({"ignored": 1}, "accept"), (False, "decline")])
async def test_a_link_is_passed_unchanged_and_only_accepted(reply: Any, received: str) -> None:
    shown: list[Any] = []

    def elicit(question: CreateElicitationParams) -> Any:
        shown.append(question.url)
        return reply

    async with connect_in_memory(eliciting_agent(), elicit=elicit) as remote:
        assert await (await remote.open_session(CWD)).ask("url") == received
        assert shown == [SIGN_IN]


def offered_capabilities(**options: Any) -> Any:
    """Return the announced capabilities as raw JSON."""
    found: list[Any] = []

    async def main() -> None:
        ours, theirs = memory_pair()
        peer = ScriptedPeer(theirs)

        async def script() -> None:
            asked = await peer.expect(method="initialize")
            found.append(asked["params"]["clientCapabilities"])
            peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"protocolVersion": 1}})

        playing = asyncio.create_task(script())
        async with connect(ours, **options):
            await playing

    run(main())
    return found[0]


def test_only_modes_with_a_callback_are_announced() -> None:
    def nobody(_: CreateElicitationParams) -> None:
        return None

    assert "elicitation" not in offered_capabilities()
    assert offered_capabilities(elicit=nobody)["elicitation"] == {"form": {}, "url": {}}
    assert offered_capabilities(elicit={"form": nobody})["elicitation"] == {"form": {}}
    assert offered_capabilities(elicit={"url": nobody})["elicitation"] == {"url": {}}


def test_a_mode_that_does_not_exist_cannot_be_answered() -> None:
    with pytest.raises(ValueError, match="voice"):
        UserCallbacks("deny", {"voice": lambda _: None})


@pytest.mark.parametrize("options", [{}, {"elicit": {"url": lambda _: True}}])
async def test_an_elicitation_that_was_not_offered_is_rejected_without_asking(options: Any) -> None:
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def script() -> None:
        asked = await peer.expect(method="initialize")
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"protocolVersion": 1}})
        params = {"mode": "form", "message": "Who?", "requestId": 1, "requestedSchema": {"type": "object"}}
        answer = await peer.request(7, "elicitation/create", params)
        assert answer["error"]["code"] == -32602

    playing = asyncio.create_task(script())
    async with connect(ours, **options):
        await playing


async def test_our_agent_does_not_ask_a_client_that_offers_no_questions() -> None:
    async with connect_in_memory(eliciting_agent()) as remote:
        with pytest.raises(ProtocolError) as caught:
            await (await remote.open_session(CWD)).ask("form")
        assert caught.value.kind == Kind.CAPABILITY_UNSUPPORTED


async def test_cancelling_the_turn_closes_its_form() -> None:
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)
    asked = asyncio.Event()
    closed: list[str] = []

    async def elicit(_: CreateElicitationParams) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            closed.append("form")

    async def script() -> None:
        received = await peer.expect(method="initialize")
        peer.send({"jsonrpc": "2.0", "id": received["id"], "result": {"protocolVersion": 1}})
        received = await peer.expect(method="session/new")
        peer.send({"jsonrpc": "2.0", "id": received["id"], "result": {"sessionId": "s"}})
        prompt = await peer.expect(method="session/prompt")
        params = {"mode": "form", "message": "?", "sessionId": "s", "requestedSchema": {"type": "object"}}
        answer = await peer.request(7, "elicitation/create", params)
        assert answer["result"] == {"action": "cancel"}
        peer.send({"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "cancelled"}})

    playing = asyncio.create_task(script())
    async with connect(ours, elicit=elicit) as remote:
        session = await remote.open_session(CWD)
        async with session.prompt("go") as turn:
            await asked.wait()
            turn.cancel()
        await playing
        assert turn.stop_reason == "cancelled"
        assert closed == ["form"]


@pytest.mark.parametrize(("client", "agent"), [("banjo", "v1"), ("v1", "banjo")])
async def test_elicitations_pass_a_translator_if_both_dialects_have_them(client: str, agent: str) -> None:
    async with translated(eliciting_agent(), client, agent, elicit=lambda _: {"name": "Ada"}) as remote:
        assert await (await remote.open_session(CWD)).ask("form") == "accept {'name': 'Ada'}"


async def test_the_call_of_a_permission_request_that_the_agent_takes_back_is_cancelled() -> None:
    agent = Agent("impatient")
    is_asked = asyncio.Event()

    @agent.prompt
    async def answer(turn: Turn) -> None:
        question = asyncio.create_task(turn.ask_permission("Delete it?"))
        await is_asked.wait()
        question.cancel()
        await asyncio.wait({question})
        await turn.say("Nobody answered.")

    async def choose(_: RequestPermissionParams) -> str | None:
        is_asked.set()
        await asyncio.Event().wait()
        return None

    async with connect_in_memory(agent, permission=choose) as remote:
        session = await remote.open_session("/tmp")
        assert await session.ask("go") == "Nobody answered."
        assert [(call.title, call.status) for call in session.tool_calls.values()] == [("Delete it?", "cancelled")]
