"""What the interop tests share: a mark on everything they start, and a check that nothing of it stays.

Starting a peer costs up to a second (the SDKs are slow to import), so peers are shared by tests; what a test
starts beyond them must be gone when it ends, and the peers themselves at the end of it all.
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
    """A mark in the environment of all that is started from here, and a state folder of the tests' own."""
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
    """What runs after a test ran before it, too."""
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
    """The same, which has no agent yet and is parted from the one a test gives it."""
    yield remote
    remote("stop")
