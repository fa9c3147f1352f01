"""A client, tested with an agent that plays a scenario: here ask.py, which starts its agent as a command."""

import sys

from dragoman.testing import ClientTester, answer, asked, tell

WORDS = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "good morning"}}


def test_the_client_prints_what_it_hears_and_why_the_turn_ended(acp_stand_in: ClientTester) -> None:
    client = acp_stand_in.meets(
        [sys.executable, "examples/ask.py"],  # the words of the agent's command follow
        [
            asked("initialize", protocolVersion=1),
            answer(protocolVersion=1, agentCapabilities={}),
            asked("session/new"),
            answer(sessionId="s1"),
            asked("session/prompt", sessionId="s1", prompt=[{"type": "text", "text": "hello"}]),
            tell("session/update", sessionId="s1", update=WORDS),
            answer(stopReason="refusal"),
        ],
    )
    assert "good morning" in client.stdout
    assert client.stdout.endswith("refusal\n")
    assert client.status == 0
