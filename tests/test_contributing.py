"""What CONTRIBUTING says about adding a dialect and a method is enough: a toy of each works in every role.

Rows are added to the tables at run time. Whatever would have to be changed elsewhere makes these tests fail.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman import Agent, RemoteAgent, Turn, connect
from dragoman.dialect import detect
from dragoman.dialect.dialects import PACKAGES, load_dialect
from dragoman.errors import Kind, ProtocolError, Unsayable
from dragoman.host.methods import SERVED_METHODS
from dragoman.schema.base import Model
from dragoman.schema.methods import METHODS, Method
from dragoman.schema.side import Side
from dragoman.testing import ScriptedPeer, check_dialect
from dragoman.transport.memory import memory_pair
from tests.host.memory_host import running_host
from tests.roles.translated_pair import CWD, translated

TOY = Path(__file__).parent / "toy_dialect"
PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def steps(thing: str) -> list[str]:
    """The numbered steps of CONTRIBUTING for adding something."""
    text = PAGE.split(f"**{thing}** (", 1)[1].split("\n**", 1)[0]
    return re.findall(r"^\d+\. (.*)", text, re.M)


def echo() -> Agent:
    """An agent that says a prompt again."""
    agent = Agent("echo")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(turn.text)

    return agent


# --- a dialect: its folder, one row, two signs, examples ---------------------------------------------------------


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the toy dialect: the steps 3 and 4."""
    monkeypatch.setitem(PACKAGES, "toy", "tests.toy_dialect")
    sign = detect.Sign("toy", has=("hello",))
    monkeypatch.setitem(detect.CLIENT_SIGNS, "initialize", [sign, *detect.CLIENT_SIGNS["initialize"]])
    monkeypatch.setattr(detect, "AGENT_SIGNS", [sign, *detect.AGENT_SIGNS])


def test_a_dialect_takes_five_steps() -> None:
    assert len(steps("A dialect")) == 5


@pytest.mark.usefixtures("toy")
def test_a_toy_dialect_passes_its_examples_and_the_contract() -> None:
    dialect = load_dialect("toy")
    for case in json.loads((TOY / "examples.json").read_text(encoding="utf-8")):
        side, wire, lifted = Side(case["side"]), case["wire"], case["lifted"]
        assert dialect.lift_call(side, wire["method"], wire["params"]) == (lifted["method"], lifted["params"])
        assert dialect.lower_call(side, lifted["method"], lifted["params"]) == (wire["method"], wire["params"])
    check_dialect(dialect)


@pytest.mark.usefixtures("toy")
async def test_an_agent_detects_a_client_of_a_toy_dialect() -> None:
    ours, theirs = memory_pair()
    connection = echo().start_connection(theirs)
    peer = ScriptedPeer(ours)
    assert (await peer.request(1, "initialize", {"hello": 1, "clientCapabilities": {}}))["result"]["hello"] == 1
    chat = (await peer.request(2, "session/new", {"cwd": CWD, "mcpServers": []}))["result"]["chat"]
    answer = await peer.request(3, "say", {"chat": chat, "prompt": [{"type": "text", "text": "hi"}]})
    assert answer["result"] == {"stopReason": "end_turn"}
    updates = [frame["params"] for frame in peer.received if frame.get("method") == "session/update"]
    assert [(each["chat"], each["update"]["content"]["text"]) for each in updates] == [(chat, "hi")]
    await connection.close()


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(("client", "agent"), [("toy", "v1"), ("draft", "toy"), ("toy", "toy")])
async def test_a_proxy_translates_a_toy_dialect(client: str, agent: str) -> None:
    async with translated(echo(), client, agent) as remote:
        session = await remote.open_session(CWD)
        async with session.prompt("hi") as turn:
            assert [update.content.text async for update in turn] == ["hi"]  # type: ignore[union-attr]


# --- a method: its types, one row, a handler ----------------------------------------------------------------------


class RateParams(Model):
    """A toy method: rate a session."""

    session_id: str
    stars: int


class RateResult(Model):
    """The mean of all ratings."""

    mean: float


RATE = "session/rate"


@pytest.fixture
def rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the toy method: steps 2 and 3."""
    row = Method(Side.AGENT, RATE, RateParams, RateResult, needs_open_session=True)
    monkeypatch.setitem(METHODS, (Side.AGENT, RATE), row)


def rated() -> Agent:
    """An agent with the handler of step 6."""
    agent, stars = echo(), [0][:0]

    @agent.on(RATE)
    def note(params: RateParams) -> RateResult:
        stars.append(params.stars)
        return RateResult(mean=sum(stars) / len(stars))

    return agent


@asynccontextmanager
async def direct(agent: Agent) -> AsyncIterator[RemoteAgent]:
    """Connect a client to an agent."""
    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    try:
        async with connect(ours, cwd=CWD) as remote:
            yield remote
    finally:
        await connection.close()


def test_a_method_takes_at_most_eight_files() -> None:
    assert len(steps("A method")) <= 8


@pytest.mark.usefixtures("rate")
async def test_an_agent_serves_a_toy_method_and_a_client_calls_it() -> None:
    async with direct(rated()) as remote:
        session = await remote.open_session(CWD)
        await remote.request(RATE, RateParams(session_id=session.id, stars=2))
        assert await remote.request(RATE, RateParams(session_id=session.id, stars=4)) == RateResult(mean=3)
        with pytest.raises(ProtocolError, match="stars"):
            await remote.request(RATE, {"sessionId": session.id})
    async with direct(echo()) as remote:
        with pytest.raises(ProtocolError, match=RATE) as caught:
            await remote.request(RATE, {"sessionId": "s", "stars": 1})
        assert caught.value.kind == Kind.CAPABILITY_UNSUPPORTED


@pytest.mark.usefixtures("rate", "toy")
async def test_a_proxy_carries_a_toy_method_and_a_dialect_without_it_refuses_it() -> None:
    async with translated(rated(), "toy", "v1") as remote:
        session = await remote.open_session(CWD)
        answer = await remote.request(RATE, RateParams(session_id=session.id, stars=5))
        assert answer == RateResult(mean=5)
    for name in ("2025.1", "crow", "draft"):
        with pytest.raises(Unsayable, match=RATE):
            load_dialect(name).lower_call(Side.AGENT, RATE, {"sessionId": "s", "stars": 1})


@pytest.mark.usefixtures("rate")
async def test_a_host_refuses_a_toy_method_until_it_has_a_row_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_host(rated) as hosted, connect(hosted.connect_as(), cwd=str(tmp_path)) as remote:
        session = await remote.open_session(str(tmp_path))
        params = RateParams(session_id=session.id, stars=1)
        with pytest.raises(ProtocolError, match=f"the host does not serve {RATE}"):
            await remote.request(RATE, params)
        monkeypatch.setitem(SERVED_METHODS, RATE, lambda client, incoming, done: done(RateResult(mean=1), None))
        assert await asyncio.wait_for(remote.request(RATE, params), 5) == RateResult(mean=1)
