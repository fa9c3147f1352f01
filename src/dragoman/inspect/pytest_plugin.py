"""The second half of the pytest plug-in: recordings as peers, and recordings of what a test said.

Loaded by pytest with every run, so it imports nothing but pytest until it is used. It stands here and not beside the
first half (dragoman/testing/plugin.py), for recordings are above the testing kit; the two meet in one hook.
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
    from dragoman.inspect.recorder import Recorder
    from dragoman.testing.under_test import Loop
    from dragoman.transport.base import Transport

_RECORDER: pytest.StashKey[Recorder] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """--acp-record."""
    group = parser.getgroup("acp")
    group.addoption(
        "--acp-record", metavar="DIR", help="record what each test says into DIR, a file a test (dragoman inspect show)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Only a run that is to be recorded has anything done to its tests."""
    if folder := config.getoption("acp_record", None):
        config.pluginmanager.register(RecordingPlugin(os.path.abspath(folder)), "dragoman-recorder")


class RecordingPlugin:
    """Records what each test says, a file a test."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @pytest.hookimpl(optionalhook=True)
    def pytest_acp_trace(self, node: pytest.Item, side: str) -> Callable[[Transport], Transport]:
        """Overhear the transports of one test; they all go into one file."""
        from dragoman.inspect.recorder import Recorder
        from dragoman.inspect.tap import Tap
        from dragoman.schema.side import Side

        if _RECORDER not in node.stash:
            os.makedirs(self._folder, exist_ok=True)
            path = os.path.join(self._folder, re.sub(r"[^\w.-]+", "-", node.nodeid).strip("-") + ".ndjson")
            with suppress(FileNotFoundError):
                os.unlink(path)  # the recording of this test in an earlier run; a run makes the folder anew
            node.stash[_RECORDER] = Recorder(
                path, ["pytest", node.nodeid], lambda text: node.add_report_section("teardown", "acp", text)
            )
        recorder = node.stash[_RECORDER]
        return Tap(lambda way, frame: recorder.record(way, frame + b"\n"), side=Side(side))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """After everything the test used has ended, its recording ends."""
        try:
            return (yield)
        finally:
            recorder = item.stash.get(_RECORDER, None)
            if recorder is not None:
                recorder.close("the test is over")


class RecordedPeer:
    """A recording in the hands of a test: it plays the agent for a client, or the client for an agent."""

    def __init__(self, loop: Loop, recording: Recording, agent: Callable[[], Any]) -> None:
        self.recording = recording
        self._loop = loop
        self._agent = agent

    def play_to_agent(
        self, agent: Any = None, *, strict: bool = False, ignore: Collection[str] = (), **options: Any
    ) -> list[bytes]:
        """Play the recorded client to an agent, by default the agent under test; gives what the agent said."""
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
            from dragoman.testing.stand_ins import run_command

            return await run_command(
                client, self.recording.command(strict=strict, ignore=ignore), patience=self._loop.timeout
            )
        async with self.recording.as_agent(strict=strict, ignore=ignore) as transport:
            return await client(transport)


@pytest.fixture
def acp_recording(
    request: pytest.FixtureRequest, acp_loop: Loop, acp_target: Any
) -> Callable[[str | os.PathLike[str]], RecordedPeer]:
    """A recording by its path, from the test's own folder: `acp_recording("talk.ndjson").meets_agent()`."""
    from dragoman.inspect.recorded_peer import Recording
    from dragoman.testing.pytest_plugin import agent_under_test

    def take(path: str | os.PathLike[str]) -> RecordedPeer:
        recording = Recording(request.path.parent / path)
        return RecordedPeer(acp_loop, recording, lambda: agent_under_test(request, acp_target)[0])

    return take
