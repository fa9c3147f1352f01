"""Each test of the pool counts only the agents that it has started itself."""

from __future__ import annotations

import pytest

from tests.host.pool.test_process_limits import EARLIER, running_agents


@pytest.fixture(autouse=True)
def note_earlier_agents() -> None:
    """Remember the agents that run before the test."""
    EARLIER.clear()
    EARLIER.update(running_agents())
