"""What the official Rust SDK and conductor said and got when they ran with ours, played again."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from interop.peers.chain_proxy import proxy as star
from tests.roles.proxy.chain.pieces import AGENT, BOUND, HELLO, call, chunk, reply, running_chain

RECORDINGS = Path(__file__).parents[4] / "tests" / "data" / "chains"


@pytest.mark.item("BR-14")
@pytest.mark.parametrize("name", ["sdk_pass_through", "sdk_arrow"])
async def test_a_recorded_proxy_of_the_rust_sdk_gets_the_same_frames_again(name: str, tmp_path: Path) -> None:
    """A prompt with an update, a file read by the agent, a cancel, an unknown method and its error."""
    result = tmp_path / "result"
    replay = [sys.executable, "-S", str(Path(__file__).with_name("replay_proxy.py"))]
    async with running_chain([[*replay, str(RECORDINGS / f"{name}.json"), str(result)]]) as chain:
        client, agent = chain.client, chain.agent
        client.send(call("i", "initialize", HELLO))
        agent.send(reply(await agent.expect(method="initialize", params=HELLO), AGENT))
        assert (await client.expect(id="i"))["result"] == AGENT
        client.send(call("n", "session/new", {"cwd": "/tmp", "mcpServers": []}))
        agent.send(reply(await agent.expect(method="session/new"), {"sessionId": "s"}))
        await client.expect(id="n", result={"sessionId": "s"})
        prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}
        client.send(call("p", "session/prompt", prompt))
        asked = await agent.expect(method="session/prompt", params=prompt)
        agent.send(chunk("hello"))
        update = await client.expect(method="session/update")
        assert update["params"]["update"]["content"]["text"] == (">hello" if name == "sdk_arrow" else "hello")
        agent.send(call("f", "fs/read_text_file", {"sessionId": "s", "path": "/tmp/x"}))
        client.send(reply(await client.expect(method="fs/read_text_file"), {"content": "text"}))
        await agent.expect(id="f", result={"content": "text"})
        client.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}})
        await agent.expect(method="session/cancel")
        agent.send(reply(asked, {"stopReason": "cancelled"}))
        await client.expect(id="p", result={"stopReason": "cancelled"})
        client.send(call("u", "_unknown", {"deep": [None]}))
        asked = await agent.expect(method="_unknown", params={"deep": [None]})
        error = {"code": -7, "message": "odd", "data": {"x": 1}}
        agent.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        assert (await client.expect(id="u"))["error"] == error
    assert result.read_text() == "same"


@pytest.mark.item("BR-15")
async def test_our_proxy_answers_the_official_conductor_as_recorded() -> None:
    steps = json.loads((RECORDINGS / "official_conductor.json").read_text())["steps"]
    front, far = memory_pair()
    ended = asyncio.create_task(star.serve(front, None))
    await ScriptedPeer(far, BOUND).play("conductor", steps)
    await far.close()
    assert await ended is not None
