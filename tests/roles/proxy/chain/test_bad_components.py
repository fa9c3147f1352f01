"""Components that are no proxies, answer twice, forge, keep silent, change the version or die: each is named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Component
from dragoman.errors import TransportClosed
from tests.roles.proxy.chain.pieces import HELLO, Json, Running, call, chunk, raw_proxy, reply, running_chain
from tests.roles.proxy.chain.processes import proxies_that_run

NEW = {"cwd": "/", "mcpServers": []}


def bad(*words: str, **settings: Any) -> Component:
    return Component(proxy=raw_proxy(*words), name="bad", **settings)


async def refused_initialize(chain: Running) -> str:
    """Initialize a chain that must refuse it; return the message, which names the component."""
    chain.client.send(call("i", "initialize", HELLO))
    answer = await chain.client.expect(id="i", error={})
    message: str = answer["error"]["message"]
    assert "proxy 2 (bad)" in message
    return message


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--no-proxy"], "is no proxy: it does not know proxy/initialize"),
        (["--alone"], "is no proxy: it answered without asking its successor"),
        (["--die", "proxy/initialize"], "the raw proxy was told to die"),
        (["--raise-version"], "asked its successor for protocol version 9"),
    ],
)
async def test_a_component_that_cannot_begin_is_named_and_everything_is_stopped(words: list[str], reason: str) -> None:
    async with running_chain([raw_proxy(), bad(*words), raw_proxy()]) as chain:
        assert reason in await refused_initialize(chain)
    assert isinstance(await chain.ended, TransportClosed)
    assert not proxies_that_run()


@pytest.mark.parametrize("version", [0, 2])
async def test_a_component_that_changes_the_version_is_named(version: int) -> None:
    async with running_chain([raw_proxy(), bad("--version", str(version))]) as chain:
        chain.client.send(call("i", "initialize", HELLO))
        chain.agent.send(reply(await chain.agent.expect(method="initialize"), {"protocolVersion": 1}))
        answer = await chain.client.expect(id="i", error={})
        assert f"proxy 2 (bad) changed the protocol version from 1 to {version}" in answer["error"]["message"]


async def test_a_component_that_never_answers_initialize_is_named() -> None:
    async with running_chain([raw_proxy(), bad("--silent", "initialize"), raw_proxy()], start_timeout=1.0) as chain:
        assert "did not answer initialize within 1 s" in await refused_initialize(chain)


async def test_a_program_that_does_not_exist_is_named_and_a_later_try_may_work(tmp_path: Path) -> None:
    program = tmp_path / "late"
    async with running_chain([raw_proxy(), Component(proxy=[str(program)], name="bad")]) as chain:
        assert "cannot be started" in await refused_initialize(chain)
        program.write_text(f"#!{sys.executable}\n" + Path(raw_proxy()[2]).read_text())
        program.chmod(0o755)
        await chain.initialize()


async def test_an_answer_that_comes_twice_is_used_once_and_reported() -> None:
    async with running_chain([bad("--twice", "session/new")]) as chain:
        await chain.initialize()
        chain.client.send(call(1, "session/new", NEW))
        asked = await chain.agent.expect(method="session/new")
        await chain.client.expect(id=1, result={"sessionId": "first of two"})
        chain.agent.send(reply(asked, {"sessionId": "second"}))
        chain.client.send(call(2, "_next", {}))
        chain.agent.send(reply(await chain.agent.expect(method="_next"), {}))
        await chain.client.expect(id=2)
        assert any("proxy 1 (bad) answered a request that was never sent" in line for line in chain.reports)


@pytest.mark.parametrize("what", ["initialize", "nested", "answer"])
async def test_a_proxy_cannot_speak_for_its_neighbor(what: str, tmp_path: Path) -> None:
    async with running_chain([raw_proxy(), bad("--forge", what), raw_proxy()]) as chain:
        await chain.initialize()
        chain.client.send(call(1, "session/new", NEW))
        chain.agent.send(reply(await chain.agent.expect(method="session/new"), {"sessionId": "real"}))
        await chain.client.expect(id=1, result={"sessionId": "real"})
        if what == "answer":
            assert any("proxy 2 (bad) answered a request" in line for line in chain.reports)


# --- death ----------------------------------------------------------------------------------------------------


@pytest.mark.item("BR-20")
@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("when", ["session/prompt", "session/update"])
async def test_a_proxy_that_dies_ends_the_chain_and_is_named_in_every_open_request(position: int, when: str) -> None:
    proxies: list[Any] = [raw_proxy(), raw_proxy(), raw_proxy()]
    proxies[position] = bad("--die", when)
    async with running_chain(proxies) as chain:
        await chain.initialize()
        chain.client.send(call("other", "_slow", {}))
        await chain.agent.expect(method="_slow")
        chain.client.send(call("p", "session/prompt", {"sessionId": "s", "prompt": []}))
        if when == "session/update":
            await chain.agent.expect(method="session/prompt")
            chain.agent.send(chunk("deadly"))
        for _ in range(2):
            answer = await chain.client.expect(error={"code": -32603})
            assert answer["id"] in ("p", "other")
            assert f"proxy {position + 1} (bad)" in answer["error"]["message"]
            assert answer["error"]["data"]["component"] == f"proxy {position + 1} (bad)"
        reason = await chain.ended
        assert "the raw proxy was told to die" in str(reason)
    assert not proxies_that_run()


@pytest.mark.item("BR-20")
async def test_an_agent_that_dies_is_named_in_every_open_request() -> None:
    async with running_chain([raw_proxy(), raw_proxy()]) as chain:
        await chain.initialize()
        for number in range(3):
            chain.client.send(call(number, "session/prompt", {"sessionId": f"s{number}", "prompt": []}))
            await chain.agent.expect(method="session/prompt")
        await chain.agent.transport.close("out of memory")
        for _ in range(3):
            answer = await chain.client.expect(error={"code": -32603})
            assert "out of memory" in answer["error"]["message"]
            assert answer["error"]["data"]["component"].startswith("agent ")
        await chain.ended


@pytest.mark.item("BR-20")
async def test_an_optional_proxy_that_dies_is_bypassed_from_then_on() -> None:
    proxies: list[Any] = [
        raw_proxy("--mark", "1"),
        bad("--die", "_die", "--mark", "2", on_exit="bypass"),
        raw_proxy("--mark", "3"),
    ]
    async with running_chain(proxies) as chain:
        await chain.initialize()
        chain.client.send(call("d", "_die", {}))
        answer = await chain.client.expect(id="d", error={"code": -32603})
        assert "proxy 2 (bad)" in answer["error"]["message"]
        chain.client.send(call("p", "session/prompt", {"sessionId": "s", "prompt": []}))
        asked = await chain.agent.expect(method="session/prompt")
        chain.agent.send(chunk("!"))
        chain.agent.send(reply(asked, {"stopReason": "end_turn"}))
        update = await chain.client.expect(method="session/update")
        assert update["params"]["update"]["content"]["text"] == "13!"
        await chain.client.expect(id="p")
        assert any("goes on without it" in line for line in chain.reports)


@pytest.mark.item("BR-20")
async def test_a_proxy_that_dies_in_a_turn_is_restarted_with_its_first_params_and_sees_its_sessions(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    again = ["--die", "session/prompt", "--die-once", str(tmp_path / "died"), "--log", str(log)]
    async with running_chain([raw_proxy(), bad(*again, on_exit="restart"), raw_proxy()]) as chain:
        await chain.initialize()
        chain.client.send(call("n", "session/new", NEW))
        chain.agent.send(reply(await chain.agent.expect(method="session/new"), {"sessionId": "s"}))
        await chain.client.expect(id="n")
        chain.client.send(call("p", "session/prompt", {"sessionId": "s", "prompt": []}))
        answer = await chain.client.expect(id="p", error={"code": -32603})
        assert "proxy 2 (bad)" in answer["error"]["message"]
        chain.client.send(call("q", "session/prompt", {"sessionId": "s", "prompt": []}))  # while it starts
        reopened = await chain.agent.expect(method="session/load", params={**NEW, "sessionId": "s"})
        chain.agent.send(chunk("history"))  # nobody but the new proxy needs it
        chain.agent.send(reply(reopened, {}))
        asked = await chain.agent.expect(method="session/prompt")
        chain.agent.send(chunk("new"))
        chain.agent.send(reply(asked, {"stopReason": "end_turn"}))
        update = await chain.client.expect(method="session/update")
        assert update["params"]["update"]["content"]["text"] == "new"
        await chain.client.expect(id="q", result={"stopReason": "end_turn"})
    assert log.read_bytes().count(b'"proxy/initialize"') == 2
    assert any("it is started again" in line for line in chain.reports)


@pytest.mark.item("BR-20")
async def test_the_agent_is_told_to_stop_the_turn_of_a_proxy_that_died(tmp_path: Path) -> None:
    words = ["--die", "session/update", "--die-once", str(tmp_path / "died")]
    async with running_chain([bad(*words, on_exit="restart")]) as chain:
        await chain.initialize()
        chain.client.send(call("p", "session/prompt", {"sessionId": "s", "prompt": []}))
        asked = await chain.agent.expect(method="session/prompt")
        chain.agent.send(chunk("deadly"))
        await chain.client.expect(id="p", error={"data": {"component": "proxy 1 (bad)"}})
        await chain.agent.expect(method="$/cancel_request", params={"requestId": asked["id"]})
        await chain.agent.expect(method="session/cancel", params={"sessionId": "s"})
        chain.agent.send(reply(asked, {"stopReason": "cancelled"}))  # nobody waits for it any more
        chain.client.send(call("q", "_next", {}))
        chain.agent.send(reply(await chain.agent.expect(method="_next"), {}))
        await chain.client.expect(id="q", result={})


@pytest.mark.item("BR-20")
async def test_a_proxy_that_dies_again_and_again_stays_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.roles.proxy.process_proxy.RESTART_LIMIT", 2)
    async with running_chain([bad("--die", "_die", on_exit="restart")]) as chain:
        await chain.initialize()
        for number in range(3):
            chain.client.send(call(number, "_die", {}))
            await chain.client.expect(id=number, error={"data": {"component": "proxy 1 (bad)"}})
        reason = await chain.ended
        assert "stays down" in str(reason)
        assert "3 times" in str(reason)


async def test_open_requests_of_the_agent_end_when_the_proxy_before_it_dies() -> None:
    async with running_chain([bad("--die", "_die", on_exit="bypass")]) as chain:
        await chain.initialize()
        chain.agent.send(call("f", "fs/read_text_file", {"sessionId": "s", "path": "/x"}))
        asked = await chain.client.expect(method="fs/read_text_file")
        chain.client.send(call("d", "_die", {}))
        seen: list[Json] = [await chain.client.receive() for _ in range(2)]
        assert {message.get("method", message.get("id")) for message in seen} == {"$/cancel_request", "d"}
        await chain.agent.expect(id="f", error={"data": {"component": "proxy 1 (bad)"}})
        chain.client.send(reply(asked, {"content": "too late"}))
        chain.client.send(call("q", "_next", {}))
        chain.agent.send(reply(await chain.agent.expect(method="_next"), {}))
        await chain.client.expect(id="q", result={})


@pytest.mark.item("BR-20")
@pytest.mark.parametrize("rule", ["fail", "restart", "bypass"])
async def test_the_notifications_that_a_component_took_with_it_are_counted_and_told(rule: str) -> None:
    words = ("--silent", "session/update", "--die", "_stop")
    async with running_chain([raw_proxy(), bad(*words, on_exit=rule)]) as chain:
        await chain.initialize()
        for number in range(2):
            chain.client.send(call(number, "session/prompt", {"sessionId": "s", "prompt": []}))
            asked = await chain.agent.expect(method="session/prompt")
            for text in "abc":
                chain.agent.send(chunk(text))
            if number == 0:  # the answer settles the first turn: the proxy dropped its updates on purpose
                chain.agent.send(reply(asked, {"stopReason": "end_turn"}))
                await chain.client.expect(id=0)
        chain.agent.send({"jsonrpc": "2.0", "method": "_stop", "params": {}})
        error = (await chain.client.expect(id=1, error={}))["error"]
        assert "proxy 2 (bad)" in error["message"]
        assert error["message"].endswith("; up to 4 notifications in it are lost")
    assert any("up to 4 notifications in it are lost" in line for line in chain.reports)


@pytest.mark.item("BR-20")
async def test_a_component_that_ends_between_turns_takes_nothing_with_it() -> None:
    async with running_chain([bad("--die", "_stop", on_exit="bypass")]) as chain:
        await chain.initialize()
        chain.client.send(call(1, "session/prompt", {"sessionId": "s", "prompt": []}))
        asked = await chain.agent.expect(method="session/prompt")
        chain.agent.send(chunk("a"))
        chain.agent.send(reply(asked, {"stopReason": "end_turn"}))
        await chain.client.expect(method="session/update")
        await chain.client.expect(id=1)
        chain.client.send(call(2, "_stop", {}))
        assert "lost" not in (await chain.client.expect(id=2, error={}))["error"]["message"]
        assert not any("lost" in line for line in chain.reports)
