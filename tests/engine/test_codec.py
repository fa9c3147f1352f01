"""A dialect in use: decoding, error codes, side data that a peer must not set, and messages it cannot express."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from dragoman import Agent
from dragoman.dialect.dialects import load_dialect
from dragoman.engine.codec import PeerCodec, decode_as, decode_strict, strip_side_data
from dragoman.errors import KINDS, Kind, ProtocolError
from dragoman.schema.auth import LogoutParams
from dragoman.schema.base import Unknown
from dragoman.schema.fs import WriteTextFileResult
from dragoman.schema.side import Side
from dragoman.schema.update import AgentMessageChunk, SessionInfoUpdate, UpdateParams
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from dragoman.wire.envelope import WireError
from tests.engine.raw_peer import Talk, call, note, result, run, talking

ERRORS = json.loads((Path(__file__).parents[1] / "data" / "dialects" / "errors.json").read_text(encoding="utf-8"))
DIALECTS = ("v1", "banjo", "2025.1", "crow", "draft")


async def _numbers(dialect: str) -> dict[str, int]:
    """The error codes that the peer gets, by the kind of what a handler raises."""

    def refuse(params: Any) -> None:
        raise ProtocolError(params["kind"], "it is so", {"detail": 1})

    numbers = {}
    async with talking({"_refuse": refuse}, dialect=dialect) as talk:
        for kind in KINDS:
            talk.peer.send(call(kind, "_refuse", {"kind": kind}))
            answer = await talk.peer.expect(
                jsonrpc="2.0", id=kind, error={"message": "it is so", "data": {"kind": kind, "detail": 1}}
            )
            numbers[kind] = answer["error"]["code"]
    return numbers


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_is_sent_with_the_code_of_its_dialect(dialect: str) -> None:
    expected = {kind: codes[dialect] for kind, codes in ERRORS["codes"].items()}
    assert run(_numbers(dialect)) == expected


@pytest.mark.item("000-06")
def test_the_numbers_of_2025_1() -> None:
    numbers = run(_numbers("2025.1"))
    assert {kind: numbers[kind] for kind in (*list(numbers)[:5], "resource_not_found", "permission_denied")} == {
        "parse_error": -32700,
        "invalid_request": -32600,
        "method_not_found": -32601,
        "invalid_params": -32602,
        "internal_error": -32603,
        "resource_not_found": -32001,
        "permission_denied": -32002,
    }
    assert (numbers["invalid_state"], numbers["capability_unsupported"]) == (-32003, -32004)


@pytest.mark.item("004-58", "004-59")
def test_the_ten_numbers_of_the_draft() -> None:
    numbers = run(_numbers("draft"))
    own = (
        Kind.SESSION_NOT_FOUND,
        Kind.AUTH_REQUIRED,
        Kind.PERMISSION_DENIED,
        Kind.CANCELLED,
        Kind.RESOURCE_NOT_FOUND,
        Kind.ACCESS_DENIED,
        Kind.INVALID_STATE,
        Kind.CAPABILITY_UNSUPPORTED,
        Kind.RATE_LIMITED,
        Kind.TIMEOUT,
    )
    assert [numbers[kind] for kind in own] == list(range(-32000, -32010, -1))


async def _receive_error(talk: Talk, error: Any) -> ProtocolError:
    asking = asyncio.create_task(talk.connection.request("_ask", {}))
    asked = await talk.peer.expect(method="_ask")
    talk.peer.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
    with pytest.raises(ProtocolError) as caught:
        await asking
    return caught.value


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_error_is_read_by_its_code_and_a_known_kind_overrides_it(dialect: str) -> None:
    async with talking(dialect=dialect) as talk:
        for code, kind in ERRORS["kinds"][dialect].items():
            for data in ({}, {"data": None}, {"data": "text"}, {"data": {"kind": "unheard of"}}):
                error = await _receive_error(talk, {"code": int(code), "message": "so it is", **data})
                assert (error.kind, error.message, error.code) == (kind, "so it is", int(code))
        for kind in KINDS:
            for code in (-32603, 1, -32000):
                said = {"code": code, "message": "", "data": {"kind": kind, "more": 1}}
                assert (await _receive_error(talk, said)).kind == kind
        assert (await _receive_error(talk, {"code": 12345, "message": "own"})).kind == Kind.INTERNAL_ERROR


async def test_official_v1_distinguishes_a_missing_resource_from_a_missing_session_by_its_uri() -> None:
    async with talking() as talk:
        missing = {"code": -32002, "message": "not found"}
        assert (await _receive_error(talk, missing)).kind == Kind.SESSION_NOT_FOUND
        assert (await _receive_error(talk, {**missing, "data": {"uri": "file:///a"}})).kind == Kind.RESOURCE_NOT_FOUND


@pytest.mark.parametrize(("dialect", "code"), [("v1", -32002), ("2025.1", -32001)])
def test_what_is_not_found_for_a_file_or_terminal_is_a_resource(dialect: str, code: int) -> None:
    codec = PeerCodec(load_dialect(dialect), Side.AGENT)
    for method in ("fs/read_text_file", "terminal/output"):
        assert codec.lift_error(WireError(code, "Resource not found"), method).kind == Kind.RESOURCE_NOT_FOUND


@pytest.mark.item("002-12")
async def test_a_crow_client_gets_every_error_of_its_params() -> None:
    ours, theirs = memory_pair()
    agent = Agent("strict", version="1", dialect="crow")
    connection = agent.start_connection(ours, report=lambda _: None)
    peer = ScriptedPeer(theirs)
    await peer.request(0, "initialize", {"protocol_version": 1, "client_capabilities": {}})
    answer = await peer.request(1, "session/new", {"cwd": 5, "mcpServers": {}})
    assert answer["error"]["code"] == -32602
    faults = answer["error"]["data"]["errors"]
    assert {fault["path"] for fault in faults} == {"cwd", "mcpServers"}
    assert all(fault["message"] for fault in faults)
    answer = await peer.request(2, "session/prompt", {"prompt": [{"type": "text"}]})
    assert answer["error"]["code"] == -32602
    assert len(answer["error"]["data"]["errors"]) == 2
    await connection.close()


OURS = {"inferred": ["prompt"], "credentials": {"token": "x"}, "mode": "root"}
EVERY_LETTER = b"".join(b"\\u%04x" % letter for letter in b"dragoman")
ESCAPED = (b"dragoman", b"\\u0064ragoman", b"drago\\u006Dan", EVERY_LETTER)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("key", ESCAPED)
async def test_our_meta_key_is_removed_from_messages_of_peers(dialect: str, key: bytes) -> None:
    seen: list[Any] = []
    async with talking({"_look": seen.append}, dialect=dialect) as talk:
        meta = {"dragoman": OURS, "theirs": {"_meta": {"dragoman": 1}, "x": 1}}
        params = {"a": {"_meta": {"dragoman": OURS}}, "b": [{"_meta": meta}], "_meta": {"dragoman": 5}, "c": 1}
        frame = json.dumps(call(1, "_look", params)).encode().replace(b"dragoman", key)
        talk.peer.send(frame)
        await talk.peer.expect(id=1)
        asking = asyncio.create_task(talk.connection.request("_ask", {}))
        asked = await talk.peer.expect(method="_ask")
        talk.peer.send(json.dumps(result(asked["id"], params)).encode().replace(b"dragoman", key))
        seen.append(await asking)
    for value in seen:
        assert value == {"a": {}, "b": [{"_meta": {"theirs": {"x": 1}}}], "c": 1}


@pytest.mark.parametrize("key", ESCAPED)
async def test_our_meta_key_is_removed_from_v1_updates_and_prompts_too(key: bytes) -> None:
    seen: list[Any] = []
    chunk = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "dragoman", "_meta": {"dragoman": OURS}},
        "_meta": {"dragoman": OURS, "kept": 1},
    }
    async with talking({"session/update": seen.append}, we=Side.CLIENT) as talk:
        frame = json.dumps(note("session/update", {"sessionId": "s", "update": chunk, "_meta": {"dragoman": 1}}))
        talk.peer.send(frame.encode().replace(b'"dragoman":', b'"%b":' % key))
        await talk.answers()
    (params,) = seen
    assert not params.meta
    assert params.update.meta == {"kept": 1}
    assert not params.update.content.meta
    assert params.update.content.text == "dragoman"


async def test_only_the_capabilities_of_initialize_may_have_our_meta_key() -> None:
    meta = {"_meta": {"dragoman": {"fs": {"watch": True}}}}
    for name in ("clientCapabilities", "client_capabilities", "capabilities"):
        assert strip_side_data({name: meta, "x": meta}, "initialize") == {name: meta, "x": {}}
        assert strip_side_data({name: meta}, "session/new") == {name: {}}
        assert strip_side_data({"params": {name: meta}}, "initialize") == {"params": {name: {}}}

    seen: list[Any] = []
    async with talking({"initialize": seen.append}) as talk:
        talk.peer.send(call(1, "initialize", {"protocolVersion": 1, "clientCapabilities": meta, **meta}))
        await talk.peer.expect(id=1)
    assert seen[0].client_capabilities.meta == meta["_meta"]
    assert not seen[0].meta


@pytest.mark.item("003-16", "004-49", "000-23")
@pytest.mark.parametrize("dialect", ["v1", "banjo", "2025.1", "draft"])
async def test_unknown_members_and_foreign_meta_change_nothing(dialect: str) -> None:
    """docs/protocol/extensions.md#unknown-members."""
    odd = {"unheard": [1, {"of": None}], "_meta": {"traceparent": "00-ab-cd-01", "acme.example/x": {"deep": [1]}}}
    session = "session_id" if dialect == "2025.1" else "sessionId"
    blocks = "prompt" if dialect in ("v1", "banjo") else "content"
    words: dict[str, Any] = {
        "v1": ({"protocolVersion": 1, "clientCapabilities": {**odd, "fs": odd}}, {"cwd": "/", "mcpServers": []}),
        "2025.1": (
            {"protocol_version": "2025.1", "capabilities": odd, "client_info": {"name": "c", "version": "1", **odd}},
            {"session_id": "mine"},
        ),
        "draft": ({"protocolVersion": 1, "capabilities": {**odd, "fs": odd}}, {"workingDirectory": "/"}),
    }
    words["banjo"] = words["v1"]

    received: list[str] = []
    agent = Agent("calm", version="1", dialect=dialect)

    @agent.prompt
    async def answer(turn: Any) -> None:
        received.append(turn.text)

    ours, theirs = memory_pair()
    connection = agent.start_connection(ours, report=lambda _: None)
    peer = ScriptedPeer(theirs)
    initialize, new = words[dialect]
    assert "result" in await peer.request(1, "initialize", {**initialize, **odd})
    opened = (await peer.request(2, "session/new", {**new, **odd}))["result"]
    id = opened.get("sessionId") or opened.get("session_id") or "mine"
    prompt = {session: id, blocks: [{"type": "text", "text": "hello", **odd}], **odd}
    peer.send({**call(3, "session/prompt", prompt), **odd})
    assert "result" in (await peer.receive())
    assert received == ["hello"]
    await connection.close()


async def test_a_notification_the_dialect_cannot_express_is_reported_once_and_not_sent() -> None:
    update = {"sessionUpdate": "usage_update", "used": 1, "size": 2}
    async with talking(dialect="2025.1") as talk:
        for number in range(5):
            talk.connection.sender.send_notification(
                "session/update", {"sessionId": "s", "update": {**update, "used": number}}
            )
        assert await talk.answers() == []
        assert [text for text in talk.reports if "not passed on" in text] == talk.reports
        assert len(talk.reports) == 1
        assert "2025.1" in talk.reports[0]
        assert "usage_update" in talk.reports[0]


async def test_a_request_the_dialect_cannot_express_fails_and_is_not_sent() -> None:
    async with talking(dialect="crow", we=Side.CLIENT) as talk:
        with pytest.raises(ProtocolError, match="crow dialect cannot express") as caught:
            await talk.connection.request("session/set_mode", {"sessionId": "s", "modeId": "m"})
        assert caught.value.kind == Kind.CAPABILITY_UNSUPPORTED
        assert await talk.answers() == []


@pytest.mark.parametrize(
    ("dialect", "reason", "received"),
    [
        ("v1", "error", {"error": {"code": -32603, "data": {"kind": "internal_error", "stopReason": "error"}}}),
        ("v1", "auth_required", {"error": {"code": -32000, "data": {"stopReason": "auth_required"}}}),
        ("v1", "refusal", {"result": {"stopReason": "refusal"}}),
        ("banjo", "auth_required", {"result": {"stopReason": "auth_required"}}),
        ("banjo", "error", {"error": {"code": -32603}}),
        ("draft", "error", {"result": {"stopReason": "error"}}),
        ("draft", "auth_required", {"error": {"code": -32001}}),
        ("crow", "error", {"result": {"stop_reason": "error"}}),
    ],
)
async def test_a_stop_reason_the_dialect_lacks_is_an_error(dialect: str, reason: str, received: dict[str, Any]) -> None:
    prompt = {
        "crow": {"session_id": "s", "prompt": []},
        "draft": {"sessionId": "s", "content": []},
    }.get(dialect, {"sessionId": "s", "prompt": []})

    async with talking({"session/prompt": lambda _: {"stopReason": reason}}, dialect=dialect) as talk:
        talk.peer.send(call(1, "session/prompt", prompt))
        await talk.peer.expect(id=1, **received)


CHUNK = b'{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}}'


def test_strict_decoding_gives_the_typed_update() -> None:
    params = decode_strict(UpdateParams, Raw(CHUNK))
    assert isinstance(params.update, AgentMessageChunk)
    assert decode_as(UpdateParams, msgspec.json.decode(CHUNK)) == decode_as(UpdateParams, Raw(CHUNK)) == params


def test_decoding_enters_the_second_pass_only_when_it_must() -> None:
    raw = Raw(b'{"sessionId":"s","update":{"sessionUpdate":"dance","steps":[1,2]}}')
    with pytest.raises(msgspec.ValidationError):
        decode_strict(UpdateParams, raw)
    params = decode_as(UpdateParams, raw)
    assert params.update == Unknown("dance", {"sessionUpdate": "dance", "steps": [1, 2]})


def test_decoding_survives_half_an_emoji() -> None:
    params = decode_as(UpdateParams, Raw(CHUNK.replace(b'"a"', rb'"\ud83d"')))
    assert params.update.content.text == "\ufffd"


def test_missing_params_are_an_empty_object() -> None:
    assert decode_as(LogoutParams, UNSET) == LogoutParams()
    with pytest.raises(ProtocolError) as caught:
        decode_as(UpdateParams, UNSET)
    assert caught.value.kind == Kind.INVALID_PARAMS


def test_a_null_result_is_an_empty_one() -> None:
    assert decode_as(WriteTextFileResult, Raw(b"null")) == WriteTextFileResult()


def test_an_update_with_only_meta_is_decoded_strictly() -> None:
    raw = b'{"sessionId":"s","update":{"sessionUpdate":"session_info_update","_meta":{"x":1}}}'
    assert decode_strict(UpdateParams, Raw(raw)).update == SessionInfoUpdate(meta={"x": 1})
