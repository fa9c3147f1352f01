"""Clients of the official SDKs and our agent in two processes behind a balancer that routes by cookies.

Neither SDK reconnects by itself: a client that is routed to another process gets an error, connects again and loads its
session there, because both processes have the same store.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.remote import RemoteClient
from tests.transport.remote.balancer import COOKIE, TOKEN, Balancer, balancing, replicas

NAMES = ("left", "right")
LEAVE = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def balancer(tmp_path_factory: pytest.TempPathFactory, mark: str) -> Iterator[Balancer]:
    with replicas(tmp_path_factory.mktemp("store"), NAMES) as servers, balancing(servers, COOKIE) as there:
        yield there


@pytest.mark.item("004-07")
@pytest.mark.parametrize("way", ["http", "ws"])
def test_a_client_stays_with_its_server_and_continues_at_another(
    client: RemoteClient, balancer: Balancer, way: str, folder: Path
) -> None:
    client("start", url=balancer.url(way), cwd=str(folder), headers=LEAVE)
    session = client("new", cwd=str(folder)).result["sessionId"]
    answers = [client("prompt", session=session, text=f"{turn}").text for turn in range(3)]
    first = answers[0].partition(" ")[0]
    assert answers == [f"{first} heard {turn}" for turn in range(3)], "one process has answered all"
    balancer.take_out(NAMES.index(first))
    assert client.tried("prompt", session=session, text="lost", may_fail=True).error is not None
    client("stop")
    client("start", url=balancer.url(way), cwd=str(folder), headers=LEAVE)
    loaded = client("load", session=session, cwd=str(folder))
    again = client("prompt", session=session, text="again")
    other = next(name for name in NAMES if name != first)
    # What came before may reach a client of these after the answer to load, for it takes another stream.
    assert (loaded.text + again.text).endswith(f"{first} heard 2{other} heard again")
    balancer.put_back()
