"""Test a client with a fake agent that plays a scenario: here ask.py, which starts its agent as a command."""

import sys

from dragoman.testing import ClientTester, expect_request, send_notification, send_result

CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "good morning"}}


def test_the_client_prints_the_text_and_the_stop_reason(acp_fake_agent: ClientTester) -> None:
    client = acp_fake_agent.run_client(
        [sys.executable, "examples/ask.py"],  # the agent's command is appended
        [
            expect_request("initialize", protocolVersion=1),
            send_result(protocolVersion=1, agentCapabilities={}),
            expect_request("session/new"),
            send_result(sessionId="s1"),
            expect_request("session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "hello"}]),
            send_notification("session/update", sessionId="s1", update=CHUNK),
            send_result(stopReason="refusal"),
        ],
    )
    assert "good morning" in client.stdout
    assert client.stdout.endswith("refusal\n")
    assert client.status == 0
