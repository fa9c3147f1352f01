"""The keeper on the wire: a scenario says every message, in order, and fails where the agent departs from it."""

import pytest

from dragoman.testing import WireClient, answer, answered, any_number, ask, asked, named, updated
from examples.keeper import agent


@pytest.mark.acp_agent(agent)
def test_the_file_is_read_shown_and_written_once_the_user_has_allowed_it(acp_client: WireClient) -> None:
    acp_client.follow(
        [
            ask(
                "initialize",
                protocolVersion=1,
                clientCapabilities={"fs": {"readTextFile": True, "writeTextFile": True}},
            ),
            answered(protocolVersion=1, agentInfo={"name": "keeper"}),
            ask("session/new", cwd="/w", mcpServers=[]),
            answered(sessionId=named("session")),
            ask("session/prompt", sessionId=named("session"), prompt=[{"type": "text", "text": "buy milk"}]),
            updated("tool_call", title="Add a note", toolCallId=named("call")),
            asked("fs/read_text_file", path="/w/notes.md"),
            answer(content="- sleep\n"),
            any_number(updated("tool_call_update", toolCallId=named("call"))),
            asked("session/request_permission", toolCall={"toolCallId": named("call")}),
            answer(outcome={"outcome": "selected", "optionId": "allow_once"}),
            any_number(updated("tool_call_update")),
            asked("fs/write_text_file", content="- sleep\n- buy milk\n"),
            answer({}),
            updated("tool_call_update", status="completed"),
            updated("agent_message_chunk", content={"text": "Kept."}),
            answered(stopReason="end_turn"),
        ]
    )
