"""Test your agent in five minutes: plain functions, one line for what you expect."""

import pytest

from dragoman import WorkspaceAccess
from dragoman.testing import SessionUnderTest
from examples.keeper import agent

pytestmark = pytest.mark.acp_agent(agent, permission="allow", workspace=WorkspaceAccess())


def test_a_note_is_kept(acp_session: SessionUnderTest) -> None:
    assert acp_session.ask("buy milk") == "Kept."
    with open(f"{acp_session.cwd}/notes.md") as notes:
        assert notes.read() == "- buy milk\n"


def test_the_note_is_a_tool_call_that_can_be_seen(acp_session: SessionUnderTest) -> None:
    seen = acp_session.turn("buy milk")
    assert seen.stop_reason == "end_turn"
    assert [(call.title, call.status) for call in acp_session.tool_calls] == [("Add a note", "completed")]


@pytest.mark.acp_agent(agent, permission="deny", workspace=WorkspaceAccess())
def test_nothing_is_kept_when_the_user_refuses(acp_session: SessionUnderTest) -> None:
    assert acp_session.ask("buy milk") == "Then I keep nothing."
