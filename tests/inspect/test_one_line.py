"""Updates that only v2 has, as one line of a recording."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.inspect.one_line import message_line

CHANGES = [{"operation": "modify", "path": "/a.txt"}, {"operation": "delete", "path": "/b.txt"}]


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({"sessionUpdate": "user_message", "content": [{"type": "text", "text": "hello"}]}, "hello"),
        ({"sessionUpdate": "agent_message", "messageId": "m", "content": []}, "(empty)"),
        (
            {"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {"exitCode": 3}},
            "terminalId=t exitCode=3",
        ),
        (
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c",
                "content": [{"type": "patch", "changes": CHANGES}],
            },
            "c · [patch modify /a.txt, delete /b.txt]",
        ),
        (
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c",
                "content": [{"type": "agent_terminal", "terminalId": "t"}],
            },
            "c · [terminal t]",
        ),
    ],
)
def test_what_only_v2_has_is_named(update: dict[str, Any], expected: str) -> None:
    assert message_line("session/update", {"sessionId": "s", "update": update}) == expected
