"""Test every message of the notes agent. The test fails at the first message that differs from the scenario."""

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
from examples.notes_agent import agent


@pytest.mark.acp_agent(agent)
def test_the_agent_reads_the_file_asks_for_permission_and_writes_it(acp_client: WireClient) -> None:
    acp_client.run_scenario(
        [
            send_request(
                "initialize",
                protocolVersion=1,
                clientCapabilities={"fs": {"readTextFile": True, "writeTextFile": True}},
            ),
            expect_result(protocolVersion=1, agentInfo={"name": "notes"}),
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
            expect_update("agent_message_chunk", content={"text": "Saved."}),
            expect_result(stopReason="end_turn"),
        ]
    )
