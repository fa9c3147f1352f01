"""What real peers do at the level of JSON-RPC, docs/protocol/peers.md#json-rpc-level, and what becomes of it here."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, connect
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.quirks.scripted import (
    SESSION,
    agent_served,
    chunk,
    client,
    error,
    in_session,
    open_session,
    prompting,
    result,
    run,
    serve,
    whole,
)


def talker() -> Agent:
    agent = Agent("talker", version="1")

    @agent.prompt
    async def answer(turn: Any) -> None:
        await turn.say("hello")

    return agent


@pytest.mark.parametrize("stray", [{"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": None}], ids=["no id", "id null"])
async def test_errors_without_a_request_are_reported_and_the_turn_continues(stray: dict[str, Any]) -> None:
    """docs/protocol/peers.md#errors-without-id"""
    reports: list[str] = []

    async def part(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="session/prompt")
        peer.send({**stray, "error": {"code": -32601, "message": "Method not found", "data": "$/cancel_request"}})
        peer.send(chunk("still here"))
        peer.send(result(asked, {"stopReason": "end_turn"}))

    async with in_session(part, report=reports.append) as session:
        assert await session.ask("go") == "still here"
    assert any("outside any request" in report for report in reports)


async def test_a_client_that_answers_our_updates_with_errors_is_tolerated() -> None:
    """docs/protocol/peers.md#errors-without-id: toad answers a notification it cannot read with an error whose id is
    null.
    """

    async with agent_served(talker()) as peer:
        session = await open_session(peer)
        for number in range(2):
            peer.send(prompting(session, number))
            await peer.expect(method="session/update")
            peer.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "Invalid params"}})
            await peer.expect(id=number, result={"stopReason": "end_turn"})


@pytest.mark.item("001-10")
async def test_our_agent_answers_each_request_and_no_notification_even_an_invalid_one() -> None:
    """docs/protocol/peers.md#errors-without-id: the Rust SDK answers some of them with errors that have no id."""
    wrong: list[tuple[str, Any]] = [
        ("_x/notif", {}),
        ("no/such_method", {}),
        ("$/cancel_request", {"requestId": 999}),
        ("$/cancel_request", {}),
        ("session/cancel", {}),
        ("session/cancel", {"sessionId": "nope-404"}),
        ("session/cancel", [1]),
        ("session/prompt", {"sessionId": 5}),
    ]

    async with agent_served(talker()) as peer:
        for method, params in wrong:
            peer.send({"jsonrpc": "2.0", "method": method, "params": params})
        peer.send({"jsonrpc": "2.0", "id": 1, "method": "no/such_method", "params": {}})
        refused = (await peer.expect(id=1))["error"]  # nothing was said before it
        assert (refused["code"], bool(refused["message"])) == (-32601, True)
        peer.send({"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}})
        assert (await peer.expect(id=2))["result"] == {"sessions": []}


@pytest.mark.parametrize("id", ["ef73ebb7-f98f-42e9-881b-d0d9f3a30127", 0, 2, -1, 1.5], ids=str)
async def test_request_ids_of_the_agent_may_be_anything(id: Any) -> None:
    """docs/protocol/peers.md#id-shapes: strings, and numbers that are also those of our own open requests (our prompt
    has id 2).
    """

    async def part(peer: ScriptedPeer) -> None:
        prompt = await peer.expect(method="session/prompt")
        assert prompt["id"] == 2
        question = {"sessionId": SESSION, "toolCall": {"toolCallId": "c"}, "options": [OPTION]}
        peer.send({"jsonrpc": "2.0", "method": "session/request_permission", "params": question, "id": id})
        await peer.expect(id=id, result={"outcome": {"outcome": "selected", "optionId": "yes"}})
        peer.send({"jsonrpc": "2.0", "result": {"stopReason": "end_turn"}, "id": 2})

    async with in_session(part, permission="allow") as session, session.prompt("go") as turn:
        pass
    assert turn.stop_reason == "end_turn"


OPTION = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{not json", -32700),
        (b"log: starting", -32700),
        (b'[{"jsonrpc":"2.0","id":"b1","method":"foo/bar","params":{}}]', -32600),
        (b"[1]", -32600),
        (b"5", -32600),
        (b'{"jsonrpc":"2.0","id":7}', -32600),
    ],
)
async def test_an_invalid_line_gets_an_error_and_the_next_request_is_served(line: bytes, code: int) -> None:
    """docs/protocol/peers.md#malformed-lines, docs/protocol/peers.md#batches: neither silence nor death."""

    async with agent_served(talker()) as peer:
        peer.send(line)
        answer = await peer.expect(error={"code": code})
        assert answer["id"] in (None, 7)
        assert await open_session(peer)


@pytest.mark.parametrize("line", [b"{not json", b"Model metadata not found", b"[1]", b"5", b'[{"id":1}]', b"\xff\xfe"])
async def test_invalid_lines_of_an_agent_are_reported_and_the_connection_continues(line: bytes) -> None:
    """docs/protocol/peers.md#malformed-lines, docs/protocol/peers.md#batches, docs/protocol/peers.md#sdk-non-object"""
    reports: list[str] = []

    async def part(peer: ScriptedPeer) -> None:
        peer.send(line)
        while (received := await peer.receive()).get("method") != "_end":
            assert received["id"] is None  # what looked like JSON is answered
        peer.send(result(received, {}))

    async with client(part, report=reports.append) as agent:
        await agent.request("_end", {})
    assert any("not a message" in report for report in reports)


@pytest.mark.parametrize(
    "refusal",
    [
        {"code": -32601, "message": '"Method not found": foo/bar', "data": {"method": "foo/bar"}},
        {"code": -32601, "message": "Method not found", "data": "foo/bar"},
        {"code": -32601, "message": "Method not found", "data": {"method": "vendor/thing"}},
        {"code": -32601, "message": "Method not found"},
        {"code": -32601.0, "message": None, "data": None},
    ],
)
async def test_method_not_found_is_recognized_by_its_code(refusal: dict[str, Any]) -> None:
    """docs/protocol/peers.md#method-not-found-text, docs/protocol/peers.md#extension-answers"""

    async def part(peer: ScriptedPeer) -> None:
        peer.send(error(await peer.expect(method="foo/bar"), refusal))

    async with client(part) as agent:
        with pytest.raises(ProtocolError) as caught:
            await agent.request("foo/bar", {})
        assert caught.value.kind == Kind.METHOD_NOT_FOUND


@pytest.mark.parametrize("answer", [None, {}, {"error": "ext_method not supported"}, [], "text", 0])
async def test_any_answer_to_an_extension_is_returned_unchanged(answer: Any) -> None:
    """docs/protocol/peers.md#extension-answers: null, {} or an error inside a result, where others say method not
    found.
    """

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "_vendor/thing", answer)

    async with client(part) as agent:
        assert await agent.request("_vendor/thing", {"a": 1}) == answer


async def test_our_agent_keeps_the_underscore_of_extensions() -> None:
    """docs/protocol/peers.md#extension-answers"""
    agent = talker()
    agent.on("_vendor/thing")(lambda params: {"got": params})

    async with agent_served(agent) as peer:
        assert (await peer.request(1, "_vendor/thing", {"a": 1}))["result"] == {"got": {"a": 1}}
        refused = (await peer.request(2, "vendor/thing", {}))["error"]
        assert (refused["code"], refused["data"]["method"]) == (-32601, "vendor/thing")
        refused = (await peer.request(3, "_other", {}))["error"]
        assert (refused["code"], refused["data"]["method"]) == (-32601, "_other")


async def test_vendor_methods_without_underscore_are_refused_ignored_or_served() -> None:
    """docs/protocol/peers.md#vendor-methods: qwen asks `craft/drainMidTurnQueue` and notifies
    `qwen/notify/session/prompt-suggestion`.
    """
    drained: list[Any] = []

    async def part(peer: ScriptedPeer) -> None:
        peer.send({"jsonrpc": "2.0", "method": "qwen/notify/session/prompt-suggestion", "params": {"x": 1}})
        peer.send({"jsonrpc": "2.0", "method": "_auth/status_update", "params": {}})
        peer.send({"jsonrpc": "2.0", "id": 0, "method": "craft/other", "params": {}})
        await peer.expect(id=0, error={"code": -32601})
        peer.send({"jsonrpc": "2.0", "id": 1, "method": "craft/drainMidTurnQueue", "params": {"q": 1}})
        await peer.expect(id=1, result={"messages": []})

    def drain(params: Any) -> Any:
        drained.append(params)
        return {"messages": []}

    async with client(whole(part), on={"craft/drainMidTurnQueue": drain}) as agent:
        await agent.request("_end", {})
    assert drained == [{"q": 1}]


async def test_a_client_that_never_answers_an_extension_does_not_block_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """docs/protocol/peers.md#vendor-methods: CodeCompanion leaves unknown requests unanswered."""
    monkeypatch.setattr("dragoman.roles.agent.session.EXTENSION_TIMEOUT", 0.01)
    agent = Agent("asker", version="1")

    @agent.prompt
    async def answer(turn: Any) -> None:
        with pytest.raises(ProtocolError) as caught:
            await turn.session.request("_vendor/ask", {})
        await turn.say(caught.value.kind)

    async with agent_served(agent) as peer:
        peer.send(prompting(await open_session(peer)))
        asked = await peer.expect(method="_vendor/ask")
        await peer.expect(method="$/cancel_request", params={"requestId": asked["id"]})
        await peer.expect(params={"update": {"content": {"text": Kind.TIMEOUT}}})
        await peer.expect(id="prompt", result={"stopReason": "end_turn"})


async def test_an_agent_may_cancel_its_permission_request() -> None:
    """docs/protocol/peers.md#late-permission-answers: claude sends $/cancel_request for its open question when the turn
    was cancelled.
    """
    closed: list[bool] = []
    asked = asyncio.Event()

    async def ask_user(_: Any) -> str:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(True)
        return "yes"

    async def part(peer: ScriptedPeer) -> None:
        question = {"sessionId": SESSION, "toolCall": {"toolCallId": "c"}, "options": [OPTION]}
        peer.send({"jsonrpc": "2.0", "id": 9, "method": "session/request_permission", "params": question})
        await asked.wait()
        peer.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 9}})
        peer.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 999}})
        await peer.expect(id=9, error={"code": -32800})

    async with in_session(whole(part), permission=ask_user) as session:
        await session.remote.request("_end", {})
    assert closed == [True]


async def test_cancelling_a_turn_answers_its_open_permission_requests_first() -> None:
    """docs/protocol/peers.md#late-permission-answers: agents answer the prompt at once; the user's late answer is
    nobody's any more.
    """
    asked = asyncio.Event()

    async def ask_user(_: Any) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "yes"

    async def part(peer: ScriptedPeer) -> None:
        prompt = await peer.expect(method="session/prompt")
        question = {"sessionId": SESSION, "toolCall": {"toolCallId": "c"}, "options": [OPTION]}
        peer.send({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": question})
        await peer.expect(method="session/cancel")
        peer.send(result(prompt, {"stopReason": "cancelled"}))
        await peer.expect(id=0, result={"outcome": {"outcome": "cancelled"}})

    async with in_session(part, permission=ask_user) as session, session.prompt("go") as turn:
        await asked.wait()
        turn.cancel()
    assert turn.stop_reason == "cancelled"


async def test_a_late_answer_to_a_permission_request_of_a_cancelled_turn_is_ignored() -> None:
    """docs/protocol/peers.md#late-permission-answers: the other way round, our agent has answered the prompt when the
    client answers the question.
    """
    agent = Agent("asker", version="1")

    @agent.prompt
    async def answer(turn: Any) -> None:
        await turn.ask_permission("May I?")

    async with agent_served(agent) as peer:
        session = await open_session(peer)
        for _ in range(2):
            peer.send(prompting(session))
            question = await peer.expect(method="session/request_permission")
            peer.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
            await peer.expect(method="$/cancel_request", params={"requestId": question["id"]})
            await peer.expect(id="prompt", result={"stopReason": "cancelled"})
            peer.send(result(question, {"outcome": {"outcome": "selected", "optionId": "allow_once"}}))


async def test_an_unknown_error_code_keeps_its_number_and_data() -> None:
    """docs/protocol/peers.md#other-codes: codex answers initialize with 1001 when its backend died."""
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def play() -> None:
        refusal = {"code": 1001, "message": "backend exited", "data": {"exitCode": 3}}
        peer.send(error(await peer.expect(method="initialize"), refusal))

    playing = asyncio.ensure_future(play())
    with pytest.raises(ProtocolError) as caught:
        async with connect(ours):
            pass
    await playing
    assert (caught.value.code, caught.value.data) == (1001, {"exitCode": 3})


@pytest.mark.parametrize("code", [-32602, -32603, -32002])
async def test_a_refused_prompt_raises_with_the_agents_error_code(code: int) -> None:
    """docs/protocol/peers.md#unknown-session: an unknown session has three numbers among agents."""

    async def part(peer: ScriptedPeer) -> None:
        peer.send(error(await peer.expect(method="session/prompt"), {"code": code, "message": "no"}))

    async with in_session(part) as session:
        with pytest.raises(ProtocolError) as caught:
            await session.ask("go")
        assert caught.value.code == code


@pytest.mark.parametrize("reason", ["refusal", "cancelled", "end_turn"])
async def test_an_agent_that_answers_for_an_unknown_session_is_tolerated(reason: str) -> None:
    """docs/protocol/peers.md#unknown-session: a success instead of an error is passed on unchanged.

    Our own agent says session_not_found.
    """

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "session/prompt", {"stopReason": reason})

    async with in_session(part) as session:
        async with session.prompt("go") as turn:
            pass
        assert turn.stop_reason == reason
    async with agent_served(talker()) as peer:
        peer.send(prompting("nope-404"))
        await peer.expect(id="prompt", error={"code": -32002, "data": {"kind": Kind.SESSION_NOT_FOUND}})


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (-32602, {"_errors": [], "cwd": {"_errors": ["expected string"]}}),
        (-32603, [{"expected": "string", "code": "invalid_type", "path": ["cwd"]}]),
        (-32602, {"errors": [{"type": "missing", "loc": ["cwd"]}]}),
        (-32602, {"error": "missing field `cwd`", "json": {}, "phase": "deserialization"}),
        (-32602, "Unknown sessionId"),
    ],
)
async def test_the_data_of_an_error_may_have_any_shape(code: int, data: Any) -> None:
    """docs/protocol/peers.md#missing-params"""

    async def part(peer: ScriptedPeer) -> None:
        refusal = {"code": code, "message": "Invalid params", "data": data}
        peer.send(error(await peer.expect(method="session/list"), refusal))

    introduction: dict[str, Any] = {"agentCapabilities": {"sessionCapabilities": {"list": {}}}}
    async with client(part, introduction) as agent:
        with pytest.raises(ProtocolError) as caught:
            await agent.list_sessions()
        assert caught.value.data == (data if isinstance(data, dict) else {"details": data})


async def test_missing_params_are_listed_by_our_agent() -> None:
    """docs/protocol/peers.md#missing-params"""

    async with agent_served(talker()) as peer:
        refused = (await peer.request(1, "session/prompt", {}))["error"]
        assert refused["code"] == -32602
        assert {fault["path"] for fault in refused["data"]["errors"]} == {"sessionId", "prompt"}


DEAF = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
asked = json.loads(sys.stdin.readline())
answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"protocolVersion": 1, "_meta": {"pid": os.getpid()}}}
print(json.dumps(answer), flush=True)
time.sleep(600)
"""


def test_an_agent_that_keeps_running_when_its_input_ends_is_stopped(tmp_path: Path) -> None:
    """docs/protocol/peers.md#end-of-input: zcodex and openhands ignore the end of their input."""
    script = tmp_path / "deaf.py"
    script.write_text(DEAF)

    async def main() -> int:
        async with connect([sys.executable, str(script)], dialect="v1") as agent:
            assert agent.initialize_result.meta
            return int(agent.initialize_result.meta["pid"])

    pid = run(main())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
