"""Test your agent in five minutes, with plain functions."""

import pytest

from dragoman import WorkspaceAccess
from dragoman.testing import SessionUnderTest
from examples.notes_agent import agent

pytestmark = pytest.mark.acp_agent(agent, permission="allow", workspace=WorkspaceAccess())


def test_the_note_is_written(acp_session: SessionUnderTest) -> None:
    assert acp_session.ask("buy milk") == "Saved."
    with open(f"{acp_session.cwd}/notes.md") as notes:
        assert notes.read() == "- buy milk\n"


def test_the_write_is_a_tool_call(acp_session: SessionUnderTest) -> None:
    turn = acp_session.turn("buy milk")
    assert turn.stop_reason == "end_turn"
    assert [(call.title, call.status) for call in acp_session.tool_calls] == [("Add a note", "completed")]


@pytest.mark.acp_agent(agent, permission="deny", workspace=WorkspaceAccess())
def test_nothing_is_written_if_the_user_refuses(acp_session: SessionUnderTest) -> None:
    assert acp_session.ask("buy milk") == "Nothing saved."
