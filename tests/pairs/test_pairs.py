"""Twenty-five pairs: a client of each dialect with an agent of each dialect, and a translator between them.

The client is written by hand and sends raw JSON; the agent's own frames are recorded. What one end sends is read at the
other end with the table of its dialect. What a dialect cannot express is listed in a table here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Turn
from dragoman.schema.plan import PlanEntry
from tests.pairs.peers import CWD, OUTPUT, HandAgent, Meeting, meeting
from tests.pairs.words import WORDS, Event, Json

ERRORS = json.loads((Path(__file__).parents[1] / "data" / "dialects" / "errors.json").read_text(encoding="utf-8"))
CODES: dict[str, dict[str, int]] = ERRORS["codes"]  # kind -> dialect -> number
MEANINGS: dict[str, dict[str, str]] = ERRORS["kinds"]  # dialect -> number -> the first kind with it

NOTE = f"{CWD}/note.txt"
BEFORE, AFTER = "one\ntwo\nthree\n", "one\n2\nthree\n"

pairs = pytest.mark.parametrize("agent", WORDS)
clients = pytest.mark.parametrize("client", WORDS)


def actor() -> Agent:
    """An agent that runs the action of one word."""
    agent = Agent("actor", version="1")

    @agent.prompt
    async def act(turn: Turn) -> str | None:
        word, _, rest = turn.text.partition(" ")
        return await ACTS[word](turn, rest)

    return agent


async def talk(turn: Turn, _: str) -> None:
    await turn.think("Hm.")
    await turn.plan(
        PlanEntry(content="Look", priority="high", status="completed"),
        PlanEntry(content="Leap", priority="low", status="in_progress"),
    )
    await turn.say("Hello ")
    await turn.say("you")


TALK: list[Event] = [
    ("thinks", "Hm."),
    ("plans", ("Look", "completed"), ("Leap", "in_progress")),
    ("says", "Hello "),
    ("says", "you"),
]


async def edit(turn: Turn, _: str) -> None:
    async with turn.tool("edit_note", name="edit_note", kind="edit", input={"path": NOTE}, paths=[NOTE]) as call:
        before = await turn.files.read(NOTE)
        if not await call.ask_permission():
            await turn.say("Then not.")
            return
        after = before.replace("two", "2")
        await turn.files.write(NOTE, after)
        await call.add_diff(NOTE, before, after)


async def dare(turn: Turn, _: str) -> None:
    await turn.say("Allowed." if await turn.ask_permission("Fetch a page", kind="fetch") else "Refused.")


async def read(turn: Turn, _: str) -> None:
    await turn.say(await turn.files.read(NOTE, line=2, limit=1))


async def list_(turn: Turn, _: str) -> None:
    async with turn.tool("list_files", name="list_files", kind="execute", input={"command": "ls -l"}) as call:
        async with await turn.terminals.create("ls", ["-l"], cwd=CWD) as terminal:
            await call.add_terminal(terminal.id)
            code = await terminal.wait()
            output = await terminal.output()
    await turn.say(f"{code} {output.exit_code} {output.output}")


async def wait(turn: Turn, _: str) -> None:
    async with turn.tool("wait_for_it", name="wait_for_it", kind="other") as call:
        await call.start()
        await turn.say("Working")
        await asyncio.get_running_loop().create_future()


async def fail(_: Turn, kind: str) -> None:
    raise ProtocolError(kind, "as you wish")


async def stop(_: Turn, reason: str) -> str:
    return reason


ACTS: dict[str, Callable[[Turn, str], Awaitable[str | None]]] = {
    "talk": talk,
    "edit": edit,
    "dare": dare,
    "read": read,
    "list": list_,
    "wait": wait,
    "fail": fail,
    "stop": stop,
}


def without_questions(events: list[Event]) -> list[Event]:
    """Crow's questions are updates; what all dialects have in common are the others."""
    return [event for event in events if event[0] != "asks"]


# --- saying ---------------------------------------------------------------------------------------------------


@pytest.mark.item("004-01")
@clients
@pairs
async def test_text_thoughts_and_plans_arrive_in_order(client: str, agent: str) -> None:
    async with meeting(client, agent, actor()) as met:
        await met.client.open()
        answer = await met.client.prompt("talk")
        assert met.theirs.asked(met.wire.calls("session/prompt")[0]) == "talk"
        assert met.agent_events == TALK
        assert met.client.events == TALK
        assert met.client.words.reason(answer["result"]) in ("end_turn", "ok")


# --- working --------------------------------------------------------------------------------------------------

# How a change of a file looks in each dialect; None where tool calls have no such content.
HUNK = "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
DIFFS: dict[str, Event | None] = {
    "v1": ("diff", NOTE, BEFORE, AFTER),
    "banjo": ("diff", NOTE, BEFORE, AFTER),
    "2025.1": None,
    "crow": None,
    "draft": ("diff", NOTE, HUNK),
}


def diff_seen(client: str, agent: str) -> list[Event]:
    """The diff as the client sees it; hunks do not say whether the last line ended with a newline."""
    expected = DIFFS[client] if DIFFS[agent] is not None else None
    if expected is not None and agent == "draft" and client != "draft":
        expected = ("diff", NOTE, BEFORE.rstrip("\n"), AFTER.rstrip("\n"))
    return [] if expected is None else [expected]


@pytest.mark.item("004-01")
@clients
@pairs
async def test_a_tool_call_asks_reads_writes_and_shows_its_diff(client: str, agent: str) -> None:
    async with meeting(client, agent, actor()) as met:
        await met.client.open()
        await met.client.prompt("edit")
        waiting = "awaiting_permission" if client == agent == "draft" else "pending"
        given = None if "crow" in (client, agent) else {"path": NOTE}
        assert without_questions(met.client.events) == [
            ("calls", "call_1_1", "edit_note", given),
            ("works", "call_1_1", waiting),
            ("works", "call_1_1", "in_progress"),
            ("works", "call_1_1", "in_progress", *diff_seen(client, agent)),
            ("works", "call_1_1", "completed"),
        ]
        assert met.client.files[NOTE] == AFTER
        served = {call["method"]: call["params"] for call in met.client.calls}
        place = {} if client in ("2025.1", "draft") else {"sessionId": met.client.session}
        assert served["fs/read_text_file"] == {**place, "path": NOTE}
        assert served["fs/write_text_file"] == {**place, "path": NOTE, "content": AFTER}
        assert is_question_about_the_note(client, agent, permission_request_of(met), met.client.session)
        assert answered(met) == verdict(agent, "allow_once")


def permission_request_of(met: Meeting) -> Any:
    """What the client was asked, on its own wire; None when it was not."""
    for call in met.client.calls:
        if call["method"] == "session/request_permission":
            return call["params"]
    return next((params for params in met.client.updates if params.get("update", {}).get("@type") == ASKS), None)


ASKS = "permission_request"


def is_question_about_the_note(client: str, agent: str, params: Any, session: str) -> bool:
    """Return whether the client was asked in its dialect; 2025.1 has no permission requests."""
    if "2025.1" in (client, agent):
        return params is None
    if client == "crow":
        update = params["update"]
        return (params["sessionId"], update["tool_call_id"], update["title"]) == (session, "call_1_1", "edit_note")
    if client == "draft":
        # A question of a crow agent has no kind, which its announcement shows, and its input as one text.
        on = json.dumps({"path": NOTE}, separators=(",", ":")) if agent == "crow" else NOTE
        return (params["operation"], params["resource"], params["toolCallId"]) == ("file_write", on, "call_1_1")
    kinds = [option["kind"] for option in params["options"]]
    call = params["toolCall"]["toolCallId"]
    return (params["sessionId"], call) == (session, "call_1_1") and {"allow_once", "reject_once"} <= set(kinds)


def answered(met: Meeting) -> Any:
    """The answer that the agent received to its question, in its own frames; None if it did not ask."""
    ids = [frame["id"] for frame in met.wire.said if frame.get("method") == "session/request_permission"]
    for frame in met.wire.received:
        if frame.get("method") == "permission_response":
            return met.theirs.granted(frame["params"])
        if "method" not in frame and frame["id"] in ids:
            return met.theirs.granted(frame["result"])
    return None


def verdict(agent: str, option: str) -> Any:
    """An answer as each agent receives it; a 2025.1 agent cannot ask."""
    return {"2025.1": None, "crow": option, "draft": option.startswith("allow")}.get(
        agent, {"outcome": "selected", "optionId": option}
    )


@pytest.mark.item("002-09")
@clients
@pairs
async def test_a_refusal_reaches_the_agent(client: str, agent: str) -> None:
    """A 2025.1 client cannot be asked; what it does not carry out itself is refused for it."""

    async with meeting(client, agent, actor(), allow=False) as met:
        await met.client.open()
        await met.client.prompt("dare")
        assert met.client.events[-1] == ("says", "Refused.")
        assert (permission_request_of(met) is None) == ("2025.1" in (client, agent))
        assert answered(met) == verdict(agent, "reject_once")


@clients
@pairs
async def test_lines_of_a_file_are_read_through_the_client(client: str, agent: str) -> None:
    async with meeting(client, agent, actor()) as met:
        await met.client.open()
        await met.client.prompt("read")
        (call,) = met.client.calls
        ranges: Json = {"v1": LINES, "banjo": LINES, "crow": LINES, "draft": {"startLine": 2, "endLine": 2}}
        named = {} if client in ("2025.1", "draft") else {"sessionId": met.client.session}
        # A 2025.1 agent asks for whole files and cuts them itself, a 2025.1 client gives nothing else.
        assert call["params"] == {**named, "path": NOTE, **({} if agent == "2025.1" else ranges.get(client, {}))}
        assert [event[1].rstrip("\n") for event in met.client.events] == ["two"]


LINES = {"line": 2, "limit": 1}


@pytest.mark.item("004-01")
@clients
@pairs
async def test_a_command_runs_in_the_clients_terminal(client: str, agent: str) -> None:
    async with meeting(client, agent, actor()) as met:
        await met.client.open()
        await met.client.prompt("list")
        assert met.client.events[-1] == ("says", f"0 0 {OUTPUT}")
        (created,) = [call["params"] for call in met.client.calls if call["method"] == "terminal/create"]
        line = {"command": "ls -l", "cwd": CWD}
        words = {"command": "ls", "args": ["-l"], "cwd": CWD}
        shell = {"command": "/bin/sh", "args": ["-c", "ls -l"], "cwd": CWD}
        named = {} if client in ("2025.1", "draft") else {"sessionId": met.client.session}
        created.pop("_meta", None)
        assert created == {**named, **(line if client == "2025.1" else shell if agent == "2025.1" else words)}
        others = [call["method"] for call in met.client.calls[1:]]
        assert others[-1] == "terminal/release"
        # The draft pushes output instead of being asked for it.
        assert ("terminal/output" in others) == (client != "draft")


# --- ending ---------------------------------------------------------------------------------------------------


@pytest.mark.item("002-06", "003-08")
@clients
@pairs
async def test_a_cancelled_turn_ends_as_cancelled_in_the_clients_dialect(client: str, agent: str) -> None:
    async with meeting(client, agent, actor()) as met:
        hand, words = met.client, met.client.words
        await hand.open()
        prompt = hand.ask("session/prompt", words.prompt(hand.session, "wait"))
        await hand.event(("says", "Working"))
        method, params = words.cancel(hand.session)
        if words.cancel_is_request:
            assert (await hand.request(method, params))["result"] == {}
        else:
            hand.notify(method, params)
        answer = await hand.answer(prompt)
        assert words.reason(answer["result"]) == "cancelled"
        is_said = client == agent == "draft"
        assert hand.events[-1] == ("works", "call_1_1", "cancelled" if is_said else "failed")
        said, _ = WORDS[agent].cancel("")
        frames = [frame for frame in met.wire.received if frame.get("method") == said]
        assert [("id" in frame) for frame in frames] == [agent == "crow"]
        # The session goes on.
        assert "result" in await hand.prompt("talk")


REASONS: dict[str, dict[str, str]] = {  # a reason -> how each dialect says it, where it is not said as it is
    "end_turn": {"2025.1": "ok"},
    "max_tokens": {"crow": "end_turn"},
    "refusal": {"crow": "end_turn", "draft": "end_turn"},
    "max_turn_requests": {"crow": "end_turn", "draft": "max_tokens"},
}


@clients
@pairs
async def test_stop_reasons_that_both_dialects_have_are_kept(client: str, agent: str) -> None:
    async with meeting(client, agent, actor()) as met:
        await met.client.open()
        for reason, said in REASONS.items():
            answer = await met.client.prompt(f"stop {reason}")
            received = said.get(agent, reason)  # what the agent could say of it
            received = {"ok": "end_turn"}.get(received, received)
            assert met.client.words.reason(answer["result"]) == REASONS[received].get(client, received)


@pytest.mark.item("002-08")
@clients
@pairs
async def test_the_stop_reason_error_becomes_an_error_in_dialects_without_it(client: str, agent: str) -> None:
    async with meeting(client, agent, actor()) as met:
        await met.client.open()
        answer = await met.client.prompt("stop error")
        if {client, agent} & {"v1", "banjo"}:
            assert answer["error"]["code"] == CODES[Kind.INTERNAL_ERROR][client]
            assert answer["error"]["data"]["stopReason"] == "error"
        else:
            assert met.client.words.reason(answer["result"]) == "error"


KINDS = (
    Kind.INVALID_PARAMS,
    Kind.INTERNAL_ERROR,
    Kind.AUTH_REQUIRED,
    Kind.SESSION_NOT_FOUND,
    Kind.RESOURCE_NOT_FOUND,
    Kind.PERMISSION_DENIED,
    Kind.RATE_LIMITED,
    Kind.TIMEOUT,
    Kind.INVALID_STATE,
)


@clients
@pairs
async def test_an_error_has_the_code_of_its_kind_in_each_dialect(client: str, agent: str) -> None:
    async with meeting(client, agent, actor()) as met:
        await met.client.open()
        for kind in KINDS:
            error = (await met.client.prompt(f"fail {kind}"))["error"]
            assert (error["code"], error["message"]) == (CODES[kind][client], "as you wish")
            assert error["data"]["kind"] == kind
            shown = [frame["error"] for frame in met.wire.said if "error" in frame][-1]
            assert shown["code"] == CODES[kind][agent]


@clients
@pairs
async def test_an_error_with_only_a_code_is_read(client: str, agent: str) -> None:
    """The same number means different things: -32001 is auth_required to a draft agent, and not found in 2025.1."""

    async def refuse(hand: HandAgent, params: Json) -> Json:
        return {"error": {"code": CODES[hand.words.asked(params)][agent], "message": "no"}}

    async with meeting(client, agent, refuse) as met:
        await met.client.open()
        for kind in (Kind.AUTH_REQUIRED, Kind.PERMISSION_DENIED, Kind.RESOURCE_NOT_FOUND, Kind.INVALID_PARAMS):
            error = (await met.client.prompt(kind))["error"]
            meant = MEANINGS[agent][str(CODES[kind][agent])]
            assert (error["code"], error["message"]) == (CODES[meant if client != agent else kind][client], "no")


# --- loading --------------------------------------------------------------------------------------------------


@pytest.mark.item("002-05", "004-01")
@clients
@pairs
async def test_loading_a_session_replays_it_before_the_answer(client: str, agent: str) -> None:
    async with meeting(client, agent, actor()) as met:
        hand = met.client
        await hand.open()
        await hand.prompt("talk")
        hand.events.clear()
        answer = await hand.request("session/load", hand.words.load(hand.session, CWD))
        assert "result" in answer, answer
        spoken = [event for event in hand.events if event[0] == "says"]
        rest = [event for event in hand.events if event[0] != "says"]
        assert rest == [("hears", "talk"), *TALK[:2]]
        assert "".join(event[1] for event in spoken) == "Hello you"
        if client == "draft":
            assert answer["result"] == {
                "sessionId": hand.session,
                "workingDirectory": CWD,
                "mode": "default",
                "configOptions": {},
                "messageCount": 3,
            }
        # The replayed session takes prompts like any other.
        assert "result" in await hand.prompt("talk")


# --- what is not offered --------------------------------------------------------------------------------------


@clients
@pairs
async def test_a_client_without_files_and_terminals_is_never_sent_such_calls(client: str, agent: str) -> None:
    """Capabilities are lowered truthfully, and an agent that calls anyway gets the error number of its dialect."""
    answers: list[Json] = []

    async def insist(hand: HandAgent, _: Json) -> None:
        answers.append(hand.introduced)
        answers.append(await hand.call("fs/read_text_file", hand.words.read(hand.session, NOTE)))
        answers.append(await hand.call("terminal/create", hand.words.run(hand.session, "ls")))

    async with meeting(client, agent, insist) as met:
        await met.client.open(files=False, terminals=False)
        await met.client.prompt("go")
        introduced, *refused = answers
        assert met.theirs.offers(introduced) == (False, False)
        assert [answer["error"]["code"] for answer in refused] == [CODES[Kind.CAPABILITY_UNSUPPORTED][agent]] * 2
        assert [answer["error"]["data"]["kind"] for answer in refused] == [Kind.CAPABILITY_UNSUPPORTED] * 2
        assert met.client.calls == []


@clients
@pairs
async def test_the_capabilities_of_the_client_reach_the_agent_in_its_dialect(client: str, agent: str) -> None:
    for files, terminals in ((True, False), (False, True), (True, True)):
        async with meeting(client, agent, actor()) as met:
            await met.client.open(files=files, terminals=terminals)
            assert met.theirs.offers(met.wire.calls("initialize")[0]) == (files, terminals)


# --- a client that cannot be asked ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "permission", "outcome"),
    [(True, "ask", "allow_once"), (False, "ask", "reject_once"), (True, "deny", "reject_once")],
)
@pytest.mark.parametrize("agent", [name for name in WORDS if name != "2025.1"])
async def test_by_default_a_2025_client_allows_what_it_runs_itself(
    agent: str, files: bool, permission: str, outcome: str
) -> None:
    async def ask(turn: Turn, _: str) -> None:
        async with turn.tool("edit_note", kind="edit", paths=[NOTE]) as call:
            await call.ask_permission()

    one = Agent("asker", version="1")
    one.prompt(lambda turn: ask(turn, ""))
    async with meeting("2025.1", agent, one, permission=permission) as met:
        await met.client.open(files=files)
        await met.client.prompt("go")
        assert answered(met) == verdict(agent, outcome)
        assert met.client.calls == []
        decisions = [text for text in met.reports if text.startswith("permission for edit_note")]
        assert len(decisions) == 1
        assert outcome in decisions[0]


async def test_a_2025_client_can_be_configured_to_allow_everything() -> None:
    async with meeting("2025.1", "v1", actor(), permission="allow") as met:
        await met.client.open(files=False)
        await met.client.prompt("dare")
        assert met.client.events[-1] == ("says", "Allowed.")


# --- reports ----------------------------------------------------------------------------------------------------


def reported_losses(reports: list[str]) -> list[str]:
    """Return the reports of losses after initialize, which always loses some capabilities."""
    return [text for text in reports if "cannot carry" in text and not text.startswith("initialize: ")]


async def test_losses_are_reported_once_by_name() -> None:
    async with meeting("crow", "v1", actor()) as met:
        await met.client.open()
        await met.client.prompt("edit")
        losses = reported_losses(met.reports)
        assert "session/update (tool_call_update): crow cannot carry update.content" in losses
        await met.client.prompt("edit")
        assert reported_losses(met.reports) == losses


@pytest.mark.parametrize("client", WORDS)
async def test_translated_values_are_not_reported_as_lost(client: str) -> None:
    async with meeting(client, "v1", actor()) as met:
        await met.client.open()
        await met.client.prompt("read")
        assert reported_losses(met.reports) == []
        await met.client.prompt("list")
        assert [text for text in reported_losses(met.reports) if text.startswith("terminal/")] == []
