"""The pytest plug-in for recordings: recordings as peers, and recordings of tests.

pytest loads it in every run, so it imports nothing but pytest until it is used. It is a separate plug-in because
`dragoman.testing` must not import `dragoman.inspect`; a hook connects the two.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dragoman.inspect.recorded_peer import Recording
    from dragoman.testing.under_test import Loop
    from dragoman.transport.base import Transport
    from dragoman.transport.recording.recorder import Recorder

_RECORDER: pytest.StashKey[Recorder] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --acp-record."""
    group = parser.getgroup("acp")
    group.addoption(
        "--acp-record", metavar="DIR", help="record each test into a file in DIR (see dragoman inspect show)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder, only if recording was requested."""
    if folder := config.getoption("acp_record", None):
        config.pluginmanager.register(RecordingPlugin(os.path.abspath(folder)), "dragoman-recorder")


class RecordingPlugin:
    """Records the traffic of each test, one file per test."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @pytest.hookimpl(optionalhook=True)
    def pytest_acp_trace(self, node: pytest.Item, side: str) -> Callable[[Transport], Transport]:
        """Record all transports of one test into one file."""
        from dragoman.schema.side import Side
        from dragoman.transport.recording.recorder import Recorder
        from dragoman.transport.recording.tap import Tap

        if _RECORDER not in node.stash:
            os.makedirs(self._folder, exist_ok=True)
            path = os.path.join(self._folder, re.sub(r"[^\w.-]+", "-", node.nodeid).strip("-") + ".ndjson")
            with suppress(FileNotFoundError):
                os.unlink(path)  # the recording of an earlier run
            node.stash[_RECORDER] = Recorder(
                path, ["pytest", node.nodeid], lambda text: node.add_report_section("teardown", "acp", text)
            )
        recorder = node.stash[_RECORDER]
        return Tap(lambda way, frame: recorder.record(way, frame + b"\n"), side=Side(side))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Close the recording after all fixtures were torn down."""
        try:
            return (yield)
        finally:
            recorder = item.stash.get(_RECORDER, None)
            if recorder is not None:
                recorder.close("the test is over")


class RecordedPeer:
    """A recording that plays the agent for a client under test, or the client for an agent under test."""

    def __init__(self, loop: Loop, recording: Recording, agent: Callable[[], Any]) -> None:
        self.recording = recording
        self._loop = loop
        self._agent = agent

    def play_to_agent(
        self, agent: Any = None, *, strict: bool = False, ignore: Collection[str] = (), **options: Any
    ) -> list[bytes]:
        """Play the recorded client to an agent, by default the agent under test; return the frames of the agent."""
        target = self._agent() if agent is None else agent
        work = self.recording.play_to_agent(target, strict=strict, ignore=ignore, timeout=self._loop.timeout, **options)
        return self._loop.run(work, 2 * self._loop.timeout)

    def play_to_client(
        self,
        client: str | Sequence[str] | Callable[[Transport], Awaitable[Any]],
        *,
        strict: bool = False,
        ignore: Collection[str] = (),
    ) -> Any:
        """Play the recorded agent to a client: a command with `{agent}` in it, or an async function of a transport."""
        return self._loop.run(self._play_to_client(client, strict, ignore), 2 * self._loop.timeout)

    async def _play_to_client(self, client: Any, strict: bool, ignore: Collection[str]) -> Any:
        if isinstance(client, str | Sequence):
            from dragoman.testing.fake_agents import run_command

            return await run_command(
                client, self.recording.command(strict=strict, ignore=ignore), timeout=self._loop.timeout
            )
        async with self.recording.as_agent(strict=strict, ignore=ignore) as transport:
            return await client(transport)


@pytest.fixture
def acp_recording(
    request: pytest.FixtureRequest, acp_loop: Loop, acp_target: Any
) -> Callable[[str | os.PathLike[str]], RecordedPeer]:
    """Load a recording, relative to the directory of the test: `acp_recording("talk.ndjson").play_to_agent()`."""
    from dragoman.inspect.recorded_peer import Recording
    from dragoman.testing.pytest_plugin import agent_under_test

    def take(path: str | os.PathLike[str]) -> RecordedPeer:
        recording = Recording(request.path.parent / path)
        return RecordedPeer(acp_loop, recording, lambda: agent_under_test(request, acp_target)[0])

    return take
