"""A proxy whose process speaks another dialect than the chain: its messages are translated on both sides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman import Component
from tests.roles.proxy.chain.pieces import call, chunk, raw_proxy, reply, running_chain
from tests.roles.proxy.chain.processes import proxies_that_run


@pytest.mark.item("BR-21")
async def test_a_proxy_of_v2_works_between_peers_of_v1(tmp_path: Path) -> None:
    log = tmp_path / "log"
    modern = Component(proxy=raw_proxy("--log", str(log)), name="modern", dialect="v2")
    async with running_chain([raw_proxy("--mark", "<"), modern, raw_proxy("--mark", "-")]) as chain:
        answer = await chain.initialize()
        assert answer["result"]["protocolVersion"] == 1
        chain.client.send(call(2, "session/new", {"cwd": "/tmp", "mcpServers": []}))
        chain.agent.send(reply(await chain.agent.expect(method="session/new"), {"sessionId": "s"}))
        await chain.client.expect(id=2, result={"sessionId": "s"})
        prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "hello"}]}
        chain.client.send(call(3, "session/prompt", prompt))
        asked = await chain.agent.expect(method="session/prompt")
        assert asked["params"]["prompt"] == prompt["prompt"]
        chain.agent.send(chunk("hi"))
        chain.agent.send(reply(asked, {"stopReason": "end_turn"}))
        update = await chain.client.expect(method="session/update")
        assert update["params"]["update"]["content"]["text"] == "<-hi"
        await chain.client.expect(id=3, result={"stopReason": "end_turn"})
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert lines[0]["method"] == "proxy/initialize"
    assert lines[0]["params"]["protocolVersion"] == 2
    states = [line["params"]["params"]["update"] for line in lines if line.get("method") == "proxy/successor"]
    assert "state_update" in {each["sessionUpdate"] for each in states}, "the process saw v2"


async def test_a_proxy_of_v2_that_dies_is_named() -> None:
    modern = Component(proxy=raw_proxy("--die", "session/prompt"), name="modern", dialect="v2")
    async with running_chain([raw_proxy(), modern]) as chain:
        assert "result" in await chain.initialize()
        chain.client.send(call(2, "session/new", {"cwd": "/tmp", "mcpServers": []}))
        chain.agent.send(reply(await chain.agent.expect(method="session/new"), {"sessionId": "s"}))
        await chain.client.expect(id=2)
        prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "hello"}]}
        chain.client.send(call(3, "session/prompt", prompt))
        answer = await chain.client.expect(id=3, error={})
        assert "proxy 2 (modern)" in answer["error"]["message"]
        await chain.ended
    assert not proxies_that_run()


def test_an_unknown_dialect_of_a_proxy_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown dialect 'latin'"):
        Component(proxy="x", dialect="latin")
