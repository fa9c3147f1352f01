"""Any story of tool calls and terminals: in the end the client shows what the agent shows."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialect.narrow.terminal_text import CLEAR_SCREEN
from tests.dialect.narrow.client import NarrowClient, content

CALLS = st.sampled_from(["c", "d"])
TERMINALS = st.sampled_from(["t", "u"])
WORDS = st.sampled_from(["one", "two", "three"])
ITEMS = st.one_of(WORDS.map(content), TERMINALS.map(lambda id: {"type": "agent_terminal", "terminalId": id}))

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("content"), CALLS, st.lists(ITEMS, max_size=3)),
        st.tuples(st.just("add"), CALLS, ITEMS),
        st.tuples(st.just("clear"), CALLS, st.sampled_from(["content", "status", "title"])),
        st.tuples(st.just("status"), CALLS, st.sampled_from(["pending", "in_progress", "completed", "failed"])),
        st.tuples(st.just("ask"), CALLS, WORDS),
        st.tuples(st.just("write"), TERMINALS, WORDS),
        st.tuples(st.just("screen"), TERMINALS, WORDS),
        st.tuples(st.just("exit"), TERMINALS, st.integers(0, 1)),
        st.tuples(st.just("wait"), st.none(), st.none()),
    ),
    max_size=20,
)


class Agent:
    """What the agent shows: contents and states of calls, and its terminals."""

    def __init__(self) -> None:
        self.contents: dict[str, list[Any]] = {}
        self.states: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.exits: dict[str, int] = {}


def base64_of(words: str) -> str:
    return base64.b64encode(words.encode()).decode()


def text_of(agent: Agent, terminal: str) -> str:
    output, code = agent.outputs.get(terminal, ""), agent.exits.get(terminal)
    body = f"```\n{output}\n```" if output else "(no output yet)" if code is None else "(no output)"
    return body if code is None else f"{body}\n[exit code {code}]"


def step(agent: Agent, client: NarrowClient, what: str, id: str, value: Any) -> list[Any]:
    """The agent does one thing; what the client gets at once."""
    match what:
        case "content":
            agent.contents[id] = list(value)
            return client.update("tool_call_update", toolCallId=id, content=value)
        case "add":
            agent.contents.setdefault(id, []).append(value)
            return client.update("tool_call_content_chunk", toolCallId=id, content=value)
        case "clear":
            if value == "content":
                agent.contents[id] = []
            elif value == "status":
                agent.states[id] = "pending"
            return client.update("tool_call_update", toolCallId=id, clear=[value])
        case "status":
            agent.states[id] = value
            return client.update("tool_call_update", toolCallId=id, status=value)
        case "write":
            agent.outputs[id] = agent.outputs.get(id, "") + value
            return client.update("terminal_output_chunk", terminalId=id, data=base64_of(value))
        case "screen":
            agent.outputs[id] = value
            return client.update("terminal_update", terminalId=id, output={"data": base64_of(value)})
        case "exit":
            agent.exits[id] = value
            return client.update("terminal_update", terminalId=id, exitStatus={"exitCode": value})
        case "ask":
            call = {"toolCallId": id}
            before, question = client.question(title=value, subject={"type": "tool_call"}, toolCall=call)
            # The client applies the tool call of a question; the agent goes on with the call afterwards.
            agent.states[id] = "in_progress"
            after = client.update("tool_call_update", toolCallId=id, status="in_progress")
            return [*before, question["toolCall"], *after]
    return client.wait()


@given(STEPS)
def test_the_client_shows_what_the_agent_shows(steps: list[Any]) -> None:
    agent, client = Agent(), NarrowClient()
    seen: dict[str, dict[str, Any]] = {}
    for what, id, value in [*steps, ("wait", "", None)]:
        for update in step(agent, client, what, id, value):
            if update.get("sessionUpdate") == "tool_call":
                assert update["toolCallId"] not in seen, "started twice"
            else:
                assert update["toolCallId"] in seen, "changed before it started"
            seen.setdefault(update["toolCallId"], {}).update(update)
    for id, items in agent.contents.items():
        expected = [
            content(text_of(agent, item["terminalId"])) if item["type"] == "agent_terminal" else item for item in items
        ]
        assert seen[id].get("content", []) == expected
    for id, state in agent.states.items():
        assert seen[id].get("status", "pending") == state
    embedded = {item["terminalId"] for items in agent.contents.values() for item in items if "terminalId" in item}
    for id in {*agent.outputs, *agent.exits} - embedded:
        if f"terminal:{id}" in seen and seen[f"terminal:{id}"]["content"]:
            assert seen[f"terminal:{id}"]["content"] == [content(text_of(agent, id))]


@given(STEPS)
def test_a_client_that_takes_pieces_of_output_has_every_screen(steps: list[Any]) -> None:
    agent, client = Agent(), NarrowClient(output_key="terminal_output")
    known: set[str] = set()
    screens: dict[str, str] = {}
    for what, id, value in [*steps, ("wait", "", None)]:
        for update in step(agent, client, what, id, value):
            meta = update.get("_meta", {})
            if info := meta.get("terminal_info"):
                assert update["sessionUpdate"] == "tool_call"
                assert info["terminal_id"] not in known
                known.add(info["terminal_id"])
            for item in update.get("content", ()):
                assert item.get("terminalId", "") in {"", *known}, "shown before it is known"
            if piece := meta.get("terminal_output"):
                before, _, last = piece["data"].rpartition(CLEAR_SCREEN)
                screen = screens.get(piece["terminal_id"], "")
                screens[piece["terminal_id"]] = last if CLEAR_SCREEN in piece["data"] else screen + last
                assert not before
    assert screens == {id: words for id, words in agent.outputs.items() if words}
