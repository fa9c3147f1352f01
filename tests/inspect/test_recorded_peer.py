"""Recorded peers: a recording plays the agent for a client, or the client for an agent, and reports deviations."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman import Agent, Turn, connect, testing
from dragoman.inspect.reader import NotARecording
from dragoman.inspect.recorded_peer import Recording
from dragoman.testing import connect_in_memory, memory_pair
from dragoman.transport.base import Transport
from dragoman.transport.recording.tap import trace_to

pytest_plugins = ["pytester"]

# pytester forgets the modules that were first imported in a run inside this one; ours are to be the same in all.
for _door in (dragoman, testing):
    for _name in _door.__all__:
        getattr(_door, _name)


def echo_agent(mark: str = "") -> Agent:
    agent = Agent("echo")

    @agent.prompt
    async def repeat(turn: Turn) -> None:
        await turn.say(turn.text + mark)

    return agent


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """A recorded conversation with an echo agent."""
    path = tmp_path / "talk.ndjson"

    async def scene() -> None:
        with trace_to(str(path), ["echo"], print) as tap:
            async with connect_in_memory(echo_agent(), trace=tap) as remote:
                await (await remote.open_session(cwd="/")).ask("hello")

    asyncio.run(scene())
    return path


async def client(transport: Transport, text: str = "hello") -> str:
    async with connect(transport) as remote:
        return await (await remote.open_session(cwd="/")).ask(text)


@pytest.mark.parametrize("strict", [False, True])
def test_a_recording_plays_the_agent_for_a_client(talk: Path, strict: bool) -> None:
    async def scene() -> str:
        async with Recording(talk).as_agent(strict=strict) as transport:
            return await client(transport)

    assert asyncio.run(scene()) == "hello"


def test_a_strict_recording_reports_where_a_client_deviated(talk: Path) -> None:
    async def scene() -> None:
        async with Recording(talk).as_agent(strict=True) as transport:
            with pytest.raises(Exception, match="expected session/prompt"):
                await client(transport, "something else")

    with pytest.raises(
        AssertionError, match=r"the client deviated from the recording .*talk.ndjson: expected session/prompt"
    ):
        asyncio.run(scene())


@pytest.mark.parametrize("strict", [False, True])
def test_a_recording_plays_the_client_for_an_agent(talk: Path, strict: bool) -> None:
    replay = asyncio.run(Recording(talk).play_to_agent(echo_agent(), strict=strict))
    assert any(b"agent_message_chunk" in frame for frame in replay)


def test_different_content_of_an_agent_fails_only_in_strict_mode(talk: Path) -> None:
    asyncio.run(Recording(talk).play_to_agent(echo_agent("!")))
    with pytest.raises(AssertionError, match="the agent deviated from the recording"):
        asyncio.run(Recording(talk).play_to_agent(echo_agent("!"), strict=True))
    asyncio.run(Recording(talk).play_to_agent(echo_agent("!"), strict=True, ignore=["params.update.content.text"]))


def test_an_agent_that_exits_early_fails(talk: Path) -> None:
    async def scene() -> None:
        ours, theirs = memory_pair()
        await theirs.close("no")
        await Recording(talk).play_to_agent(ours)

    with pytest.raises(AssertionError, match="deviated"):
        asyncio.run(scene())


def test_a_file_without_messages_is_refused_with_the_command_to_record_one(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(NotARecording, match="dragoman inspect run"):
        Recording(tmp_path / "empty")


def test_pytest_tests_can_replay_and_make_recordings(pytester: pytest.Pytester, talk: Path) -> None:
    pytester.path.joinpath("talk.ndjson").write_bytes(talk.read_bytes())
    pytester.makepyfile(
        f"""
        import pytest
        from dragoman import Agent, connect

        agent = Agent("echo")

        @agent.prompt
        async def repeat(turn):
            await turn.say(turn.text)

        @pytest.fixture
        def acp_target():
            return agent

        def test_as_client(acp_recording):
            assert acp_recording("talk.ndjson").play_to_agent()

        def test_as_agent(acp_recording):
            async def client(transport):
                async with connect(transport) as remote:
                    return await (await remote.open_session(cwd="/")).ask("hello")

            assert acp_recording("talk.ndjson").play_to_client(client) == "hello"

        def test_as_agent_of_a_command(acp_recording):
            words = [{sys.executable!r}, "-m", "dragoman", "run", "hello", "--", "{{agent}}"]
            assert acp_recording("talk.ndjson").play_to_client(words).stdout == "hello\\n"

        def test_recorded_anew(acp_session):
            assert acp_session.ask("hello") == "hello"
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "--acp-record=taken").assert_outcomes(passed=4)
    taken = list((pytester.path / "taken").iterdir())
    assert [path.name.rpartition("-")[2] for path in taken] == ["test_recorded_anew.ndjson"]
    asyncio.run(Recording(taken[0]).play_to_agent(echo_agent(), strict=True))
