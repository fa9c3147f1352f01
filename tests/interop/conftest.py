"""Fixtures of the interop tests: every process they start is marked, and a check finds processes that are left.

Starting a peer takes up to a second (the SDKs are slow to import), so tests share peers. Every other process of a test
must have ended when the test ends, and the peers at the end of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from uuid import uuid4

import pytest

from dragoman.transport.process.watchdog import WATCHDOG
from tests.interop import leftovers
from tests.interop.remote import RemoteClient


@pytest.fixture(scope="package")
def mark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Mark the environment of all processes that are started from here, and give them a separate state folder."""
    WATCHDOG.guard("interop", 0)  # what lives as long as we do begins without the mark
    resource_tracker.ensure_running()  # multiprocessing's, which other tests of this process may need
    WATCHDOG.unguard("interop")
    value = uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(leftovers.MARK, value)
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield value
    leftovers.assert_nothing_left(value, set())


@pytest.fixture(autouse=True)
def nothing_left(mark: str) -> Iterator[None]:
    """Check that no process is left after a test."""
    before = set(leftovers.marked(mark))
    yield
    leftovers.assert_nothing_left(mark, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a test's sessions."""
    made = tmp_path / "work ünd play"
    made.mkdir()
    return made


@pytest.fixture(scope="package", params=["py_client", "ts_client"])
def remote(request: pytest.FixtureRequest, mark: str) -> Iterator[RemoteClient]:
    """A client of an official SDK."""
    client = RemoteClient(request.param)
    yield client
    client.close()


@pytest.fixture
def client(remote: RemoteClient) -> Iterator[RemoteClient]:
    """The same client without an agent; the agent that a test starts is stopped afterwards."""
    yield remote
    remote("stop")
