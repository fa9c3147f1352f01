"""One agent in several processes behind a balancer, with a token.

Over HTTP the balancer routes by its cookie or by the connection id; over WebSocket by the socket. A client that reaches
another process gets 404 for its connection and continues its session there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from dragoman import connect
from dragoman.errors import StartFailed
from tests.transport.remote.balancer import COOKIE, ID, NOTHING, TOKEN, balancing, replicas
from tests.transport.remote.certificate import certificate

WITHIN = 60.0

NAMES = ("left", "right")

# By which way and with which affinity it works.
WAYS = [("https", COOKIE), ("https", ID), ("wss", COOKIE), ("wss", NOTHING)]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, Path]) -> Iterator[list[str]]:
    with replicas(tmp_path_factory.mktemp("store"), NAMES, keys) as urls:
        yield urls


def server_name(text: str) -> str:
    """Return the name of the server that answered."""
    return text.partition(" ")[0]


@pytest.mark.item("004-07")
@pytest.mark.parametrize(("way", "affinity"), WAYS)
def test_a_client_stays_with_its_server_behind_a_balancer(
    way: str, affinity: str, servers: list[str], keys: tuple[Path, Path], tmp_path: Path
) -> None:
    async def main(url: str) -> list[list[str]]:
        async with AsyncExitStack() as stack:
            sessions = []
            for _ in range(4):
                agent = await stack.enter_async_context(
                    connect(url, token=TOKEN, tls=str(keys[0]), reconnect_timeout=5.0)
                )
                sessions.append(await agent.open_session(str(tmp_path)))
            rounds = [await asyncio.gather(*(each.ask(f"{turn}") for each in sessions)) for turn in range(3)]
            return [list(answers) for answers in zip(*rounds, strict=True)]

    with balancing(servers, affinity, keys) as balancer:
        answers = asyncio.run(asyncio.wait_for(main(balancer.url(way)), WITHIN))
    for mine in answers:
        assert [text.partition(" heard ")[2] for text in mine] == ["0", "1", "2"]
        assert len(set(map(server_name, mine))) == 1, mine
    assert {server_name(mine[0]) for mine in answers} == set(NAMES), "both have something to do"


@pytest.mark.item("004-07")
@pytest.mark.parametrize("way", ["https", "wss"])
def test_no_client_connects_without_the_token_on_any_transport(
    way: str, servers: list[str], keys: tuple[Path, Path]
) -> None:
    async def main(url: str) -> str:
        with pytest.raises(StartFailed) as refused:
            async with connect(url, token="another", tls=str(keys[0]), reconnect_timeout=5.0):
                pass
        return str(refused.value)

    with balancing(servers, COOKIE, keys) as balancer:
        assert "show the token" in asyncio.run(asyncio.wait_for(main(balancer.url(way)), WITHIN))
        for url in servers:
            assert httpx.post(url, json={}, verify=False).status_code == 401


@pytest.mark.item("004-07")
@pytest.mark.parametrize(("way", "affinity"), WAYS)
def test_a_client_whose_server_is_removed_continues_its_session_at_another(
    way: str, affinity: str, servers: list[str], keys: tuple[Path, Path], tmp_path: Path
) -> None:
    async def main() -> None:
        joined = asyncio.Event()

        def report(line: str) -> None:
            if "1 session attached again" in line:
                joined.set()

        async with connect(balancer.url(way), token=TOKEN, tls=str(keys[0]), report=report, timeout=WITHIN) as agent:
            session = await agent.open_session(str(tmp_path))
            first = server_name(await session.ask("before"))
            await asyncio.to_thread(balancer.take_out, NAMES.index(first))
            await joined.wait()
            after = await session.ask("after")
            assert (server_name(after), after.partition(" heard ")[2]) == (
                next(n for n in NAMES if n != first),
                "after",
            )
            texts = [item.text for item in session.transcript if hasattr(item, "text")]
            assert len(texts) == len(set(texts)), "nothing is shown twice"

    with balancing(servers, affinity, keys) as balancer:
        asyncio.run(asyncio.wait_for(main(), WITHIN))


@pytest.mark.item("004-07")
def test_a_request_to_the_wrong_server_gets_an_unknown_connection_error(
    servers: list[str], keys: tuple[Path, Path]
) -> None:
    introduction = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    with httpx.Client(verify=False, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        mine = {"Acp-Connection-Id": client.post(servers[0], json=introduction).headers["Acp-Connection-Id"]}
        note = {"jsonrpc": "2.0", "method": "_x/note"}
        assert client.post(servers[0], json=note, headers=mine).status_code == 202
        for answer in (
            client.post(servers[1], json=note, headers=mine),
            client.get(servers[1], headers={**mine, "Accept": "text/event-stream"}),
            client.delete(servers[1], headers=mine),
        ):
            assert answer.status_code == 404
            error = answer.json()["error"]
            assert error.get("data", error)["kind"] == "resource_not_found"
            assert "initialize a new one and load your sessions" in answer.json()["error"]["message"]
        assert client.delete(servers[0], headers=mine).status_code == 202
