"""The messages of the keeper: a scenario lists every message in order, and fails where the agent deviates."""

import pytest

from dragoman.testing import (
    WireClient,
    any_number,
    expect_request,
    expect_result,
    expect_update,
    send_request,
    send_result,
    variable,
)
from examples.keeper import agent


@pytest.mark.acp_agent(agent)
def test_the_file_is_read_shown_and_written_once_the_user_has_allowed_it(acp_client: WireClient) -> None:
    acp_client.run_scenario(
        [
            send_request(
                "initialize",
                protocolVersion=1,
                clientCapabilities={"fs": {"readTextFile": True, "writeTextFile": True}},
            ),
            expect_result(protocolVersion=1, agentInfo={"name": "keeper"}),
            send_request("session/new", cwd="/w", mcpServers=[]),
            expect_result(sessionId=variable("session")),
            send_request(
                "session/prompt", sessionId=variable("session"), prompt=[{"type": "text", "text": "buy milk"}]
            ),
            expect_update("tool_call", title="Add a note", toolCallId=variable("call")),
            expect_request("fs/read_text_file", path="/w/notes.md"),
            send_result(content="- sleep\n"),
            any_number(expect_update("tool_call_update", toolCallId=variable("call"))),
            expect_request("session/request_permission", toolCall={"toolCallId": variable("call")}),
            send_result(outcome={"outcome": "selected", "optionId": "allow_once"}),
            any_number(expect_update("tool_call_update")),
            expect_request("fs/write_text_file", content="- sleep\n- buy milk\n"),
            send_result({}),
            expect_update("tool_call_update", status="completed"),
            expect_update("agent_message_chunk", content={"text": "Kept."}),
            expect_result(stopReason="end_turn"),
        ]
    )
