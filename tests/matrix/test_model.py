"""The fake model of the matrix: its answers in the API of each provider, and the server on loopback."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from interop.model import anthropic, gemini, openai
from interop.model.script import ChatMessage, Conversation, Reply, Tool, answer
from interop.model.server import ANTHROPIC, CHAT, GEMINI, RESPONSES, Api, Model

WRITE = Tool(
    "Write",
    {
        "type": "object",
        "properties": {
            "file_path": {"type": "string"},
            "content": {"type": "string"},
            "append": {"type": "boolean"},
            "why": {"type": "string"},
        },
        "required": ["file_path", "content", "append"],
    },
)
SHELL = Tool("bash", {"properties": {"command": {"type": "string"}}, "required": ["command"]})
TIMEOUT = 90.0


def conversation(*texts: str, tools: tuple[Tool, ...] = (WRITE, SHELL)) -> Conversation:
    return Conversation(tuple(ChatMessage("user", text) for text in texts), tools)


def test_the_model_streams_the_ordered_text_word_by_word() -> None:
    assert answer(conversation("context [[say one two]] more")).chunks == ("one ", "two")


def test_the_last_order_is_followed() -> None:
    assert answer(conversation("[[say one]]", "[[say two]]", "a reminder")).text == "two"


def test_a_prompt_without_an_order_is_answered_too() -> None:
    assert answer(conversation("hello")).text
    assert answer(Conversation()).text


def test_the_model_writes_with_the_offered_tool_and_fills_required_members() -> None:
    call = answer(conversation("[[write /tmp/note.txt some text]]")).call
    assert call is not None
    assert call.name == "Write"
    assert call.arguments == {"file_path": "/tmp/note.txt", "content": "some text", "append": False}


def test_the_model_writes_with_a_shell_that_asks_if_there_is_no_other_tool() -> None:
    # codex 2.6 has only exec_command, and asks its user only for a command that leaves the sandbox.
    words = ("cmd", "justification", "sandbox_permissions", "workdir")
    shell = Tool("exec_command", {"properties": {word: {"type": "string"} for word in words}, "required": ["cmd"]})
    call = answer(conversation("[[write /tmp/a.txt it's so]]", tools=(shell,))).call
    assert call is not None
    assert call.arguments["cmd"] == """printf %s 'it'"'"'s so' > /tmp/a.txt"""
    assert call.arguments["sandbox_permissions"] == "require_escalated"
    assert set(call.arguments) == {"cmd", "justification", "sandbox_permissions"}


def test_the_model_runs_a_command() -> None:
    call = answer(conversation("[[run touch here]]")).call
    assert call is not None
    assert (call.name, call.arguments) == ("bash", {"command": "touch here"})


def test_without_a_matching_tool_the_model_lists_the_tools() -> None:
    search = Tool("search", {"properties": {"query": {"type": "string"}}})
    assert "search" in answer(conversation("[[write /x y]]", tools=(search,))).text


def test_a_tool_that_answered_is_not_called_again() -> None:
    messages = (
        ChatMessage("user", "[[run ls]]"),
        ChatMessage("model", ""),
        ChatMessage("tool", "a b c"),
        ChatMessage("user", "a reminder"),
    )
    reply = answer(Conversation(messages, (SHELL,)))
    assert reply.call is None
    assert "a b c" in reply.text


def test_a_new_order_after_a_tool_result_is_followed() -> None:
    messages = (ChatMessage("user", "[[run ls]]"), ChatMessage("tool", "a"), ChatMessage("user", "[[run pwd]]"))
    call = answer(Conversation(messages, (SHELL,))).call
    assert call is not None
    assert call.arguments == {"command": "pwd"}


def test_only_requests_with_tools_get_a_slow_answer() -> None:
    slow = answer(conversation("[[slow 2]]"))
    assert (len(slow.chunks), slow.pause) == (20, 0.1)
    assert answer(conversation("[[slow 2]]", tools=())).pause == 0


def test_the_model_repeats_earlier_messages() -> None:
    assert "heron" in answer(conversation("[[say heron]]", "[[recall]]")).text
    assert "heron" not in answer(conversation("[[recall]]")).text


def test_a_requested_json_answer_follows_its_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {}}, "required": ["a"]}
    assert json.loads(answer(Conversation(wanted=schema)).text) == {"a": False}


# --- the spellings ----------------------------------------------------------------------------------------------

FUNCTION = {"name": WRITE.name, "parameters": WRITE.schema}

# The same conversation in each provider's words: an order, a call of the tool, what it answered.
REQUESTS: list[tuple[str, Api, dict[str, Any]]] = [
    (
        "chat",
        CHAT,
        {
            "messages": [
                {"role": "system", "content": "[[say no]]"},
                {"role": "user", "content": [{"type": "text", "text": "[[write /n t]]"}]},
                {"role": "assistant", "content": None, "tool_calls": []},
                {"role": "tool", "tool_call_id": "call_1", "content": "written"},
            ],
            "tools": [{"type": "function", "function": FUNCTION}],
        },
    ),
    (
        "responses",
        RESPONSES,
        {
            "instructions": "[[say no]]",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "[[write /n t]]"}]},
                {"type": "function_call", "call_id": "call_1", "name": "Write", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_1", "output": "written"},
            ],
            "tools": [{"type": "function", **FUNCTION}],
        },
    ),
    (
        "anthropic",
        ANTHROPIC,
        {
            "system": "[[say no]]",
            "messages": [
                {"role": "user", "content": "[[write /n t]]"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "Write", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "written"}]},
            ],
            "tools": [{"name": "Write", "input_schema": WRITE.schema}, {"type": "web_search", "name": "search"}],
        },
    ),
    (
        "gemini",
        GEMINI,
        {
            "systemInstruction": {"parts": [{"text": "[[say no]]"}]},
            "contents": [
                {"role": "user", "parts": [{"text": "[[write /n t]]"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "Write", "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "Write", "response": {"output": "written"}}}]},
            ],
            "tools": [{"functionDeclarations": [{"name": "Write", "parametersJsonSchema": WRITE.schema}]}],
        },
    ),
]


@pytest.mark.parametrize(("name", "api", "body"), REQUESTS, ids=[name for name, _, _ in REQUESTS])
def test_each_api_reads_orders_tools_and_results(name: str, api: Api, body: dict[str, Any]) -> None:
    conversation = api.read(body)
    assert [said.text for said in conversation.said if said.who == "user"] == ["[[write /n t]]"]
    assert ["written" in said.text for said in conversation.said if said.who == "tool"] == [True]
    assert [tool.name for tool in conversation.tools] == ["Write"]
    assert conversation.tools[0].schema == WRITE.schema


@pytest.mark.parametrize(("name", "api", "body"), REQUESTS, ids=[name for name, _, _ in REQUESTS])
def test_a_stream_has_the_chunks_of_the_reply(name: str, api: Api, body: dict[str, Any]) -> None:
    reply = Reply(chunks=("one ", "two"), pause=0.5)
    events = list(api.stream(reply, body, "1"))
    assert [event.pause for event in events if event.pause] == [0.5, 0.5]
    assert "one two" in json.dumps(api.whole(reply, body, "1"))
    for event in events:
        assert event.encode().endswith(b"\n\n")


def test_chat_ends_with_a_reason_usage_and_done() -> None:
    call = answer(conversation("[[run ls]]"))
    *_, reason, usage, done = openai.stream_chat(call, {"model": "m"}, "7")
    assert reason.data["choices"][0]["finish_reason"] == "tool_calls"
    assert usage.data["usage"]["total_tokens"] == 15
    assert done.encode() == b"data: [DONE]\n\n"
    first_call = next(
        event.data["choices"][0]["delta"]["tool_calls"][0]
        for event in openai.stream_chat(call, {}, "7")
        if "tool_calls" in str(event.data) and event.data["choices"][0]["delta"]
    )
    assert first_call["function"] == {"name": "bash", "arguments": '{"command": "ls"}'}


def test_responses_number_their_events_and_end_completed() -> None:
    events = list(openai.stream_responses(answer(conversation("[[say a b]]")), {}, "7"))
    assert [event.data["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0].name == "response.created"
    assert events[-1].data["response"]["output"][0]["content"][0]["text"] == "a b"
    events = list(openai.stream_responses(answer(conversation("[[run ls]]")), {}, "7"))
    assert events[-1].data["response"]["output"][0]["call_id"] == "call_7"


def test_messages_begin_and_end_like_those_of_anthropic() -> None:
    events = [event.name for event in anthropic.stream(answer(conversation("[[say a]]")), {}, "7")]
    assert events == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert anthropic.response_body(answer(conversation("[[run ls]]")), {}, "7")["stop_reason"] == "tool_use"


def test_gemini_sends_the_finish_reason_once_at_the_end() -> None:
    events = list(gemini.stream(answer(conversation("[[run ls]]")), {}, "7"))
    assert events[-1].data["candidates"][0]["finishReason"] == "STOP"
    assert events[-1].data["candidates"][0]["content"]["parts"][0]["functionCall"]["args"] == {"command": "ls"}


# --- the server -------------------------------------------------------------------------------------------------


def ask(url: str, body: dict[str, Any] | None = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, data=data), timeout=TIMEOUT) as response:
        return str(response.read().decode())


def test_the_server_streams_complete_answers_and_logs_by_agent(tmp_path: Path) -> None:
    with Model(tmp_path) as model:
        base = model.url("somebody")
        body = {"messages": [{"role": "user", "content": "[[say hello you]]"}]}
        streamed = ask(f"{base}/v1/chat/completions", {**body, "stream": True})
        assert streamed.count('"content": "') == 3
        assert streamed.endswith("data: [DONE]\n\n")
        assert json.loads(ask(f"{base}/v1/messages?beta=true", body))["content"][0]["text"] == "hello you"
        contents = {"contents": [{"role": "user", "parts": [{"text": "[[say hello]]"}]}]}
        assert "hello" in ask(f"{base}/v1beta/models/m:streamGenerateContent?alt=sse", contents)
        assert json.loads(ask(f"{base}/v1/models"))["data"][0]["id"] == "fake-model"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(f"{base}/v1/else")
    assert len((tmp_path / "somebody.model.ndjson").read_text().splitlines()) == 5


def test_the_server_stops_at_the_end_of_its_block() -> None:
    with Model() as model:
        port = model.port
        assert port
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT):
        pass


def test_a_slow_answer_ends_when_its_client_disconnects_and_others_are_served_meanwhile() -> None:
    with Model() as model, socket.create_connection(("127.0.0.1", model.port), timeout=TIMEOUT) as slow:
        body = json.dumps(
            {
                "stream": True,
                "messages": [{"role": "user", "content": "[[slow 60]]"}],
                "tools": [{"type": "function", "function": FUNCTION}],
            }
        ).encode()
        slow.sendall(b"POST /x/v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        received = b""
        while b'"1 "' not in received:
            received += slow.recv(65536)
        assert "hello" in ask(
            f"{model.url('y')}/v1/messages", {"messages": [{"role": "user", "content": "[[say hello]]"}]}
        )
