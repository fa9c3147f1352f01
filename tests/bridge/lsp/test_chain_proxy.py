"""The proxy `lsp` in a chain: a write of the agent gets the diagnostics of a language server."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.bridge.lsp import chain_proxy
from tests.bridge.lsp.projects import broken
from tests.roles.proxy.chain.pieces import call, raw_proxy, reply, running_chain


@pytest.mark.item("BR-22")
async def test_a_write_that_passes_the_proxy_gets_diagnostics_in_its_tool_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_proxy, "user_table", lambda: [broken("well", tmp_path / "log")])
    path = tmp_path / "a.txt"
    path.write_text("good")
    async with running_chain([raw_proxy(), "lsp", raw_proxy()]) as chain:
        assert "result" in await chain.initialize()
        chain.client.send(call(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []}))
        chain.agent.send(reply(await chain.agent.expect(method="session/new"), {"sessionId": "s"}))
        await chain.client.expect(id=2)
        start = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Edit", "kind": "edit"}
        update = {"sessionId": "s", "update": start | {"locations": [{"path": str(path)}]}}
        chain.agent.send({"jsonrpc": "2.0", "method": "session/update", "params": update})
        assert (await chain.client.expect(method="session/update"))["params"] == update
        chain.agent.send(call(7, "fs/write_text_file", {"sessionId": "s", "path": str(path), "content": "bad"}))
        asked = await chain.client.expect(method="fs/write_text_file")
        path.write_text("bad")
        chain.client.send(reply(asked, {}))
        shown = (await chain.client.expect(method="session/update"))["params"]["update"]
        assert shown["toolCallId"] == "c"
        assert "bad" in shown["content"][0]["content"]["text"]
        assert (await chain.agent.expect(id=7))["result"] == {}
