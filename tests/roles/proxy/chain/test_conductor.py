"""A conductor between a client, proxies and an agent: the handshake, both spellings, envelopes, cancel, order."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman import Chain, Component, Forward, Proxy
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.pairs.words import WORDS
from tests.roles.proxy.chain.pieces import AGENT, BOUND, HELLO, Json, call, chunk, raw_proxy, reply, running_chain


def log_of(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.item("OFF-04")
async def test_initialize_walks_the_chain_as_the_official_conductor_does_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    proxies = [raw_proxy("--log", str(first)), raw_proxy("--log", str(second))]
    async with running_chain(proxies) as chain:
        chain.client.send(call("i", "initialize", HELLO))
        asked = await chain.agent.expect(method="initialize", params=HELLO)
        assert [(line.get("method"), line.get("params")) for line in log_of(first)] == [("proxy/initialize", HELLO)]
        assert [(line.get("method"), line.get("params")) for line in log_of(second)] == [("proxy/initialize", HELLO)]
        chain.agent.send(reply(asked, {**AGENT, "_shape": "round"}))
        answer = await chain.client.expect(id="i")
        assert answer["result"] == {**AGENT, "_shape": "round"}
        chain.client.send(call(2, "session/prompt", {"sessionId": "s", "prompt": []}))
        asked = await chain.agent.expect(method="session/prompt")
        chain.agent.send(chunk("hello"))
        chain.agent.send(reply(asked, {"stopReason": "end_turn"}))
        await chain.client.expect(method="session/update")
        await chain.client.expect(id=2, result={"stopReason": "end_turn"})
    # To the first proxy: a plain prompt, the wrapped update, and two answers, which are never wrapped.
    lines = log_of(first)[1:]
    assert [line.get("method", "answer") for line in lines] == ["answer", "session/prompt", "proxy/successor", "answer"]
    assert lines[2]["params"] == {"method": "session/update", "params": chunk("hello")["params"]}
    assert "id" not in lines[2]


@pytest.mark.item("BR-16")
async def test_both_spellings_work_in_one_chain(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    proxies = [raw_proxy("--old", "--log", str(old), "--mark", "o"), raw_proxy("--log", str(new), "--mark", "n")]
    async with running_chain(proxies) as chain:
        assert (await chain.initialize())["result"] == AGENT
        chain.agent.send(chunk("!"))
        update = await chain.client.expect(method="session/update")
        assert update["params"]["update"]["content"]["text"] == "on!"
    said = [line["method"] for line in log_of(old) if "method" in line]
    assert said == ["proxy/initialize", "_proxy/initialize", "_proxy/successor"]
    assert {line["method"] for line in log_of(new) if "method" in line} == {"proxy/initialize", "proxy/successor"}


FIVE = [raw_proxy() for _ in range(5)]


@pytest.mark.item("BR-17")
async def test_answers_and_calls_without_params_pass_five_proxies_unchanged() -> None:
    errors: list[Json] = [
        {"code": -32001, "message": "odd", "data": None},
        {"code": 7, "message": "no data", "_extra": [1]},
        {"code": -32603, "message": "deep", "data": {"a": [{"b": None}]}},
    ]
    async with running_chain(FIVE) as chain:
        await chain.initialize()
        for number, error in enumerate(errors):
            chain.client.send(call(number, "_odd", {"n": number}))
            asked = await chain.agent.expect(method="_odd", params={"n": number})
            chain.agent.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
            assert (await chain.client.expect(id=number))["error"] == error
        chain.client.send({"jsonrpc": "2.0", "id": "bare", "method": "_bare"})
        asked = await chain.agent.expect(method="_bare")
        assert "params" not in asked
        chain.agent.send(reply(asked, None))
        assert (await chain.client.expect(id="bare"))["result"] is None
        chain.agent.send(
            {"jsonrpc": "2.0", "id": "up", "method": "fs/read_text_file", "params": {"path": "/x", "_n": 1}}
        )
        asked = await chain.client.expect(method="fs/read_text_file", params={"path": "/x", "_n": 1})
        chain.client.send(reply(asked, {"content": "text", "_more": True}))
        assert (await chain.agent.expect(id="up"))["result"] == {"content": "text", "_more": True}


@pytest.mark.item("BR-17")
@pytest.mark.parametrize("spelling", ["proxy", "_proxy"])
async def test_messages_between_proxies_are_refused_from_the_ends(spelling: str) -> None:
    async with running_chain([raw_proxy()]) as chain:
        chain.client.send(call(1, f"{spelling}/initialize", HELLO))
        early = await chain.client.expect(id=1, error={"code": -32600})
        assert "initialize" in early["error"]["message"]
        await chain.initialize()
        wrapped = {"method": "session/new", "params": {"cwd": "/", "mcpServers": []}}
        chain.client.send(call(2, f"{spelling}/successor", wrapped))
        await chain.client.expect(id=2, error={"code": -32600})
        chain.client.send(call(3, f"{spelling}/initialize", HELLO))
        await chain.client.expect(id=3, error={"code": -32600})
        chain.agent.send(call("a", f"{spelling}/successor", wrapped))
        refused = await chain.agent.expect(id="a", error={"code": -32600})
        assert "only a proxy" in refused["error"]["message"]
        chain.agent.send({"jsonrpc": "2.0", "method": f"{spelling}/successor", "params": wrapped})  # is dropped
        chain.client.send(call(4, "_still", {}))
        await chain.agent.expect(method="_still")


async def test_a_request_before_initialize_is_refused_and_initialize_cannot_be_repeated() -> None:
    async with running_chain([raw_proxy()]) as chain:
        chain.client.send(call(1, "session/new", {"cwd": "/", "mcpServers": []}))
        answer = await chain.client.expect(id=1, error={"code": -32600})
        assert "send initialize first" in answer["error"]["message"]
        await chain.initialize()
        chain.client.send(call(2, "initialize", HELLO))
        await chain.client.expect(id=2, error={"data": {"kind": "invalid_state"}})


@pytest.mark.item("BR-18")
@pytest.mark.parametrize("answers_with", ["error", "result"])
async def test_a_cancel_crosses_the_chain_hop_by_hop_and_every_hop_answers(tmp_path: Path, answers_with: str) -> None:
    watching = Proxy("watching")

    @watching.from_client("session/prompt")
    async def prompt(params: Any, forward: Forward[Any]) -> Any:
        return await forward(params)

    log = tmp_path / "log"
    async with running_chain([raw_proxy(), watching, raw_proxy("--log", str(log))]) as chain:
        await chain.initialize()
        chain.client.send(call("p", "session/prompt", {"sessionId": "s", "prompt": []}))
        asked = await chain.agent.expect(method="session/prompt")
        chain.client.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p"}})
        await chain.agent.expect(method="$/cancel_request", params={"requestId": asked["id"]})
        if answers_with == "error":
            error = {"code": -32800, "message": "gone"}
            chain.agent.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
            assert (await chain.client.expect(id="p"))["error"] == error
        else:
            chain.agent.send(reply(asked, {"stopReason": "cancelled"}))
            await chain.client.expect(id="p", result={"stopReason": "cancelled"})
    cancels = [line for line in log_of(log) if line.get("method") == "$/cancel_request"]
    assert len(cancels) == 1, "the proxy was told once, plainly, with the id that it knows"


async def test_a_component_that_ignores_a_cancel_is_named_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.roles.proxy.link.CANCEL_TIMEOUT", 0.1)
    async with running_chain([Component(proxy=raw_proxy("--silent", "session/load"), name="mute")]) as chain:
        await chain.initialize()
        chain.client.send(call("l", "session/load", {"sessionId": "s", "cwd": "/", "mcpServers": []}))
        chain.client.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "l"}})
        answer = await chain.client.expect(id="l", error={"code": -32800})
        assert answer["error"]["data"]["component"] == "proxy 1 (mute)"
        assert "not answered" in answer["error"]["message"]


def claims_prompt() -> Proxy:
    proxy = Proxy("claims")

    @proxy.from_client("session/prompt")
    async def prompt(params: Any, forward: Forward[Any]) -> Any:
        return await forward(params)

    return proxy


@pytest.mark.item("BR-19")
@pytest.mark.parametrize(
    "proxies",
    [[], [raw_proxy()], [claims_prompt()], [claims_prompt(), raw_proxy(), claims_prompt(), claims_prompt()]],
    ids=["none", "process", "functions", "mixed"],
)
async def test_an_answer_keeps_its_place_between_notifications(proxies: list[Any]) -> None:
    async with running_chain(proxies) as chain:
        await chain.initialize()
        for round in range(20):
            chain.client.send(call(round, "session/prompt", {"sessionId": "s", "prompt": []}))
            asked = await chain.agent.expect(method="session/prompt")
            for message in (chunk("before"), reply(asked, {"stopReason": "end_turn"}), chunk("after")):
                chain.agent.send(message)
            seen = [await chain.client.receive() for _ in range(3)]
            texts = [m["params"]["update"]["content"]["text"] if "method" in m else "answer" for m in seen]
            assert texts == ["before", "answer", "after"]


async def test_a_function_sees_types_and_its_errors_name_it() -> None:
    proxy = Proxy("careful")
    seen: list[str] = []

    @proxy.from_agent("session/update")
    def watch(params: Any, forward: Forward[None]) -> Any:
        seen.append(type(params.update).__name__)
        return forward(params)

    @proxy.from_client("_fails")
    async def fail(params: Any, forward: Forward[Any]) -> Any:
        raise RuntimeError("broken inside")

    async with running_chain([proxy]) as chain:
        await chain.initialize()
        chain.agent.send(chunk("hello"))
        await chain.client.expect(method="session/update")
        assert seen == ["AgentMessageChunk"]
        chain.client.send(call(1, "_fails", {}))
        answer = await chain.client.expect(id=1, error={"code": -32603})
        assert answer["error"]["data"]["component"] == "proxy 1 (careful)"
        assert "broken inside" in answer["error"]["message"]


async def test_a_function_can_send_notifications_of_its_own_both_ways() -> None:
    proxy = Proxy("chatty")

    @proxy.from_client("session/prompt")
    async def prompt(params: Any, forward: Forward[Any]) -> Any:
        forward.notify_client("session/update", chunk("soon")["params"])
        forward.notify_agent("_soon", {"n": 1})
        return await forward(params)

    async with running_chain([raw_proxy(), proxy, raw_proxy()]) as chain:
        await chain.initialize()
        chain.client.send(call(1, "session/prompt", {"sessionId": "s", "prompt": []}))
        await chain.client.expect(method="session/update", params=chunk("soon")["params"])
        await chain.agent.expect(method="_soon", params={"n": 1})
        await chain.agent.expect(method="session/prompt")


async def test_a_rewrite_sees_calls_and_answers_in_both_directions() -> None:
    proxy = Proxy("upper")
    seen: list[tuple[str, str, str]] = []

    @proxy.on_message
    def rewrite(passing: Any) -> bytes | None:
        seen.append((passing.kind, passing.receiver.name, passing.method))
        return bytes(passing.raw).replace(b"secret", b"[hidden]") if b"secret" in bytes(passing.raw) else None

    async with running_chain([proxy]) as chain:
        await chain.initialize()
        seen.clear()
        chain.client.send(call(1, "_ask", {"text": "my secret"}))
        asked = await chain.agent.expect(method="_ask", params={"text": "my [hidden]"})
        chain.agent.send(reply(asked, {"text": "your secret"}))
        await chain.client.expect(id=1, result={"text": "your [hidden]"})
        chain.client.send(call(2, "_ask", {}))
        asked = await chain.agent.expect(method="_ask")
        chain.agent.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": 1, "message": "a secret"}})
        await chain.client.expect(id=2, error={"code": 1, "message": "a [hidden]"})
    assert seen == [
        ("request", "AGENT", "_ask"), ("result", "CLIENT", "_ask"),
        ("request", "AGENT", "_ask"), ("error", "CLIENT", "_ask"),
    ]  # fmt: skip


@pytest.mark.item("BR-15")
@pytest.mark.parametrize("word", ["proxy", "_proxy"])
async def test_a_proxy_without_a_command_serves_a_conductor_in_its_spelling(word: str) -> None:
    """`Proxy.run()`: unknown methods and members pass both ways, and the version is not touched."""
    proxy = claims_prompt()
    front, far = memory_pair()
    ended = asyncio.create_task(proxy.serve(front, None))
    conductor = ScriptedPeer(far, BOUND)
    conductor.send(call(1, f"{word}/initialize", HELLO))
    asked = await conductor.expect(method=f"{word}/successor", params={"method": "initialize", "params": HELLO})
    conductor.send(reply(asked, {**AGENT, "_new": 1}))
    assert (await conductor.expect(id=1))["result"] == {**AGENT, "_new": 1}
    conductor.send(call("x", "_unknown", {"deep": {"er": None}}))
    asked = await conductor.expect(method=f"{word}/successor")
    assert asked["params"] == {"method": "_unknown", "params": {"deep": {"er": None}}}
    conductor.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": 5, "message": "no", "_more": 1}})
    assert (await conductor.expect(id="x"))["error"] == {"code": 5, "message": "no", "_more": 1}
    conductor.send({"jsonrpc": "2.0", "method": f"{word}/successor", "params": {"method": "_hum", "params": {"n": 1}}})
    assert await conductor.receive() == {"jsonrpc": "2.0", "method": "_hum", "params": {"n": 1}}
    conductor.send(call("p", "session/prompt", {"sessionId": "s", "prompt": [], "_odd": True}))
    asked = await conductor.expect(method=f"{word}/successor")
    assert asked["params"]["params"] == {"sessionId": "s", "prompt": [], "_odd": True}
    conductor.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p"}})
    await conductor.expect(method="$/cancel_request", params={"requestId": asked["id"]})
    conductor.send(reply(asked, {"stopReason": "cancelled"}))
    await conductor.expect(id="p", result={"stopReason": "cancelled"})
    conductor.send(call("again", "initialize", HELLO))
    await conductor.expect(id="again", error={"code": -32600})
    await far.close()
    await ended


def test_a_chain_refuses_what_cannot_work() -> None:
    with pytest.raises(ValueError, match="on_exit is one of fail, restart, bypass"):
        Component(proxy="x", on_exit="explode")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="empty"):
        Chain([""], agent="x")
    with pytest.raises(ValueError, match="unknown dialect"):
        Chain([], agent="x", agent_dialect="latin")


def test_the_envelope_of_a_successor_needs_a_method() -> None:
    from dragoman.roles.proxy.link import _decode_successor

    with pytest.raises(msgspec.ValidationError):
        _decode_successor(b'{"params":{}}')


@pytest.mark.item("BR-21")
@pytest.mark.parametrize("agent", ["banjo", "draft", "crow"])
@pytest.mark.parametrize("client", ["v1", "draft"])
async def test_both_ends_of_a_chain_may_have_their_own_dialect(client: str, agent: str) -> None:
    front, left = memory_pair()
    back, right = memory_pair()
    theirs, ours = WORDS[client], WORDS[agent]
    chain = Chain([raw_proxy("--mark", "<"), claims_prompt()], agent=back, client_dialect=client, agent_dialect=agent)
    ended = asyncio.create_task(chain.serve(front))
    editor, server = ScriptedPeer(left, BOUND), ScriptedPeer(right, BOUND)
    editor.send(call(1, "initialize", theirs.initialize(True, True, "/tmp")))
    server.send(reply(await server.expect(method="initialize"), ours.introduction))
    assert "result" in await editor.expect(id=1)
    editor.send(call(2, "session/new", theirs.new("/tmp", "")))
    server.send(reply(await server.expect(method="session/new"), ours.made("s")))
    assert (await editor.expect(id=2))["result"]["sessionId"] == "s"
    await left.close()
    await ended
