"""One agent in several processes behind a balancer: it demands a token, and a client stays with the one that knows it.

Over HTTP the balancer is told by its cookie or by the connection's id; over WebSocket the socket is enough. A client
that comes to another one is told that its connection is not there (404), and goes on there with its session.
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


def heard(text: str) -> str:
    """Which of them gave an answer."""
    return text.partition(" ")[0]


@pytest.mark.item("004-07")
@pytest.mark.parametrize(("way", "affinity"), WAYS)
def test_a_client_stays_with_the_one_of_many_that_knows_it(
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
        assert len(set(map(heard, mine))) == 1, mine
    assert {heard(mine[0]) for mine in answers} == set(NAMES), "both have something to do"


@pytest.mark.item("004-07")
@pytest.mark.parametrize("way", ["https", "wss"])
def test_nobody_comes_in_without_the_token_by_whatever_way(
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
def test_a_client_whose_server_is_taken_out_goes_on_with_its_session_at_another(
    way: str, affinity: str, servers: list[str], keys: tuple[Path, Path], tmp_path: Path
) -> None:
    async def main() -> None:
        joined = asyncio.Event()

        def report(line: str) -> None:
            if "1 session joined again" in line:
                joined.set()

        async with connect(balancer.url(way), token=TOKEN, tls=str(keys[0]), report=report, timeout=WITHIN) as agent:
            session = await agent.open_session(str(tmp_path))
            first = heard(await session.ask("before"))
            await asyncio.to_thread(balancer.take_out, NAMES.index(first))
            await joined.wait()
            after = await session.ask("after")
            assert (heard(after), after.partition(" heard ")[2]) == (next(n for n in NAMES if n != first), "after")
            texts = [item.text for item in session.transcript if hasattr(item, "text")]
            assert len(texts) == len(set(texts)), "nothing is shown twice"

    with balancing(servers, affinity, keys) as balancer:
        asyncio.run(asyncio.wait_for(main(), WITHIN))


@pytest.mark.item("004-07")
def test_who_comes_to_another_one_is_told_that_the_connection_is_not_there(
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
            assert answer.json()["error"]["kind"] == "resource_not_found"
            assert "initialize a new one and load your sessions" in answer.json()["error"]["message"]
        assert client.delete(servers[0], headers=mine).status_code == 202
