"""Each dialect as in its document, by hand: what its clients and agents send, and how received messages are read.

A table for tests, independent of our codecs: raw JSON on one side, plain tuples on the other. The peers in peers.py use
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Json = dict[str, Any]
Event = tuple[Any, ...]


class Words(NamedTuple):
    """One dialect: params and results as a peer writes them, readers for what it receives."""

    name: str
    # What a client says.
    initialize: Callable[[bool, bool, str], Json]  # files, terminals, cwd
    new: Callable[[str, str], Json]  # cwd, the id a client may choose
    load: Callable[[str, str], Json]  # session, cwd
    prompt: Callable[[str, str], Json]  # session, text
    cancel: Callable[[str], tuple[str, Json]]
    cancel_is_request: bool
    # What a client receives.
    opened: Callable[[Json, str], str]  # result, the id the client chose
    reason: Callable[[Json], Any]
    event: Callable[[Json], Event]
    # What a client answers.
    content: Callable[[str], Json]
    written: Json
    terminal: Callable[[str], Json]
    screen: Callable[[str], Json]
    ended: Callable[[int], Json]
    done: Callable[[str], Json]  # the word for what was done: killed, released
    # What an agent says.
    introduction: Json
    made: Callable[[str], Json]
    stopped: Json
    say: Callable[[str, str], Json]  # session, text
    read: Callable[[str, str], Json]  # session, path
    run: Callable[[str, str], Json]  # session, command line
    # What an agent receives.
    asked: Callable[[Json], str]
    offers: Callable[[Json], tuple[bool, bool]]  # files, terminals
    granted: Callable[[Json], Any]


def official(name: str) -> Words:
    """v1 and banjo: the same but for plans, whose entries have ids in banjo."""
    return Words(
        name=name,
        initialize=lambda files, terminals, cwd: {
            "protocolVersion": 1,
            "clientInfo": {"name": "hand", "version": "1"},
            "clientCapabilities": {"fs": {"readTextFile": files, "writeTextFile": files}, "terminal": terminals},
        },
        new=lambda cwd, session: {"cwd": cwd, "mcpServers": []},
        load=lambda session, cwd: {"sessionId": session, "cwd": cwd, "mcpServers": []},
        prompt=lambda session, text: {"sessionId": session, "prompt": [{"type": "text", "text": text}]},
        cancel=lambda session: ("session/cancel", {"sessionId": session}),
        cancel_is_request=False,
        opened=lambda result, _: str(result["sessionId"]),
        reason=lambda result: result["stopReason"],
        event=lambda params: _official_event(params["update"]),
        content=lambda text: {"content": text},
        written={},
        terminal=lambda terminal: {"terminalId": terminal},
        screen=lambda text: {"output": text, "truncated": False, "exitStatus": {"exitCode": 0, "signal": None}},
        ended=lambda code: {"exitCode": code, "signal": None},
        done=lambda what: {},
        introduction={
            "protocolVersion": 1,
            "agentInfo": {"name": "hand", "version": "1"},
            "agentCapabilities": {"loadSession": True},
            "authMethods": [],
        },
        made=lambda session: {"sessionId": session},
        stopped={"stopReason": "end_turn"},
        say=lambda session, text: {
            "sessionId": session,
            "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}},
        },
        read=lambda session, path: {"sessionId": session, "path": path},
        run=lambda session, line: {"sessionId": session, "command": "/bin/sh", "args": ["-c", line], "cwd": "/"},
        asked=lambda params: str(params["prompt"][0]["text"]),
        offers=lambda params: (
            bool(params["clientCapabilities"]["fs"]["readTextFile"]),
            bool(params["clientCapabilities"]["terminal"]),
        ),
        granted=lambda result: result["outcome"],
    )


def _official_event(update: Json) -> Event:
    kind = update["sessionUpdate"]
    if kind == "agent_message_chunk":
        return ("says", update["content"]["text"])
    if kind == "agent_thought_chunk":
        return ("thinks", update["content"]["text"])
    if kind == "user_message_chunk":
        return ("hears", update["content"]["text"])
    if kind == "plan":
        return ("plans", *((entry["content"], entry["status"]) for entry in update["entries"]))
    if kind == "tool_call":
        return ("calls", update["toolCallId"], update.get("name") or update["title"], update.get("rawInput"))
    if kind == "tool_call_update":
        content = [_official_content(each) for each in update.get("content") or ()]
        return ("works", update["toolCallId"], update.get("status"), *content)
    return (kind,)


def _official_content(entry: Json) -> Event:
    if entry["type"] == "diff":
        return ("diff", entry["path"], entry["oldText"], entry["newText"])
    if entry["type"] == "terminal":
        return ("terminal", entry["terminalId"])
    return ("text", entry["content"]["text"])


Y2025 = Words(
    name="2025.1",
    initialize=lambda files, terminals, cwd: {
        "protocol_version": "2025.1",
        "client_info": {"name": "hand", "version": "1"},
        "capabilities": {"text_files": files, "terminal": terminals},
        "working_directory": cwd,
        "mcp_servers": [],
    },
    new=lambda cwd, session: {"session_id": session, "mode": "ask"},
    load=lambda session, cwd: {"session_id": session},
    prompt=lambda session, text: {"session_id": session, "content": [{"type": "text", "text": text}]},
    cancel=lambda session: ("session/cancel", {"session_id": session}),
    cancel_is_request=False,
    opened=lambda result, chosen: str(result.get("session_id", chosen)),
    reason=lambda result: result.get("stop_reason", result["status"]),
    event=lambda params: _y2025_event(params["type"], params["data"]),
    content=lambda text: {"content": text},
    written={"status": "ok"},
    terminal=lambda terminal: {"terminal_id": terminal},
    screen=lambda text: {"output": text, "truncated": False, "exit_status": {"exit_code": 0, "signal": None}},
    ended=lambda code: {"exit_code": code, "signal": None},
    done=lambda what: {"status": "ok"},
    introduction={
        "agent_info": {"name": "hand", "version": "1"},
        "capabilities": {"streaming": True, "audio": False, "image": False},
    },
    made=lambda session: {"status": "ok"},
    stopped={"status": "ok"},
    say=lambda session, text: {"session_id": session, "type": "agent_message_chunk", "data": {"text": text}},
    read=lambda session, path: {"path": path},
    run=lambda session, line: {"cwd": "/", "command": line},
    asked=lambda params: str(params["content"][0]["text"]),
    offers=lambda params: (
        bool(params["capabilities"]["text_files"]),
        bool(params["capabilities"].get("terminal")),
    ),
    granted=lambda result: result,
)


def _y2025_event(kind: str, data: Json) -> Event:
    if kind == "agent_message_chunk":
        return ("says", data["text"])
    if kind == "agent_thought_chunk":
        return ("thinks", data["text"])
    if kind == "user_message_chunk":
        return ("hears", data["text"])
    if kind == "plan":
        return ("plans", *((step["description"], step["status"]) for step in data["steps"]))
    if kind == "tool_call":
        return ("calls", data["id"], data["name"], data.get("arguments"))
    if kind == "tool_call_update":
        content = [("text", data["result"]["content"])] if "content" in data.get("result", {}) else []
        return ("works", data["id"], data.get("status"), *content)
    return (kind,)


CROW = Words(
    name="crow",
    initialize=lambda files, terminals, cwd: {
        "protocol_version": 1,
        "client_info": {"name": "hand", "version": "1"},
        "client_capabilities": {
            "fs": {"read_text_file": files, "write_text_file": files},
            "terminal": terminals,
        },
    },
    new=lambda cwd, session: {"cwd": cwd, "mcpServers": []},
    load=lambda session, cwd: {"session_id": session, "cwd": cwd},
    prompt=lambda session, text: {"session_id": session, "prompt": [{"type": "text", "text": text}]},
    cancel=lambda session: ("cancel", {"session_id": session}),
    cancel_is_request=True,
    opened=lambda result, _: str(result["sessionId"]),
    reason=lambda result: result["stop_reason"],
    event=lambda params: _crow_event(params["update"]),
    content=lambda text: {"content": text},
    written={},
    terminal=lambda terminal: {"terminalId": terminal},
    screen=lambda text: {"output": text, "truncated": False, "exitStatus": {"exitCode": 0, "signal": None}},
    ended=lambda code: {"exitCode": code, "signal": None},
    done=lambda what: {},
    introduction={
        "protocol_version": 1,
        "agent_info": {"name": "hand", "title": "Hand", "version": "1"},
        "agent_capabilities": {
            "prompt_capabilities": {"text": True, "image": False, "resource": True},
            "mcp_capabilities": {"http": False, "sse": False},
            "load_session": True,
        },
    },
    made=lambda session: {"sessionId": session},
    stopped={"stop_reason": "end_turn"},
    say=lambda session, text: {"sessionId": session, "update": {"@type": "agent_message_text", "text": text}},
    read=lambda session, path: {"sessionId": session, "path": path},
    run=lambda session, line: {"sessionId": session, "command": "/bin/sh", "args": ["-c", line], "cwd": "/"},
    asked=lambda params: str(params["prompt"][0]["text"]),
    offers=lambda params: (
        bool(params["client_capabilities"]["fs"]["read_text_file"]),
        bool(params["client_capabilities"]["terminal"]),
    ),
    granted=lambda params: params["option_id"],
)


def _crow_event(update: Json) -> Event:
    kind = update["@type"]
    if kind == "agent_message_text":
        return ("says", update["text"])
    if kind == "agent_thought_text":
        return ("thinks", update["text"])
    if kind == "user_message_text":
        return ("hears", update["text"])
    if kind == "plan_update":
        return ("plans", *((entry["content"], entry["status"]) for entry in update["entries"]))
    if kind == "tool_call_start":
        return ("calls", update["tool_call_id"], update["title"], None)
    if kind == "tool_call_update":
        return ("works", update["tool_call_id"], update.get("status"))
    if kind == "permission_request":
        return ("asks", update["tool_call_id"], update["title"])
    return (kind,)


DRAFT = Words(
    name="draft",
    initialize=lambda files, terminals, cwd: {
        "protocolVersion": 1,
        "clientInfo": {"name": "hand", "version": "1"},
        "capabilities": {"fs": {"read": files, "write": files}, "terminal": {"create": terminals}},
    },
    new=lambda cwd, session: {"workingDirectory": cwd},
    load=lambda session, cwd: {"sessionId": session},
    prompt=lambda session, text: {"sessionId": session, "content": [{"type": "text", "text": text}]},
    cancel=lambda session: ("session/cancel", {"sessionId": session, "reason": "enough"}),
    cancel_is_request=False,
    opened=lambda result, _: str(result["sessionId"]),
    reason=lambda result: result["stopReason"],
    event=lambda params: _draft_event(params["type"], params["data"]),
    content=lambda text: {"content": text, "encoding": "utf-8", "totalLines": len(text.splitlines())},
    written={"bytesWritten": 3, "created": False},
    terminal=lambda terminal: {"terminalId": terminal, "pid": 7},
    screen=lambda text: {},
    ended=lambda code: {"exitCode": code},
    done=lambda what: {what: True},
    introduction={
        "protocolVersion": 1,
        "agentInfo": {"name": "hand", "version": "1"},
        "capabilities": {
            "loadSession": True,
            "mcpCapabilities": {"servers": False, "transport": []},
            "promptCapabilities": {"streaming": True, "cancellation": True, "attachments": False},
            "sessionCapabilities": {"persistence": True},
        },
    },
    made=lambda session: {"sessionId": session, "createdAt": "2026-01-01T00:00:00Z"},
    stopped={"stopReason": "end_turn"},
    say=lambda session, text: {
        "sessionId": session,
        "type": "agent_message_chunk",
        "data": {"content": text, "index": 0},
    },
    read=lambda session, path: {"path": path},
    run=lambda session, line: {"command": "/bin/sh", "args": ["-c", line], "cwd": "/"},
    asked=lambda params: str(params["content"][0]["text"]),
    offers=lambda params: (
        bool(params["capabilities"]["fs"]["read"]),
        bool(params["capabilities"].get("terminal", {}).get("create")),
    ),
    granted=lambda result: result["granted"],
)


def _draft_event(kind: str, data: Json) -> Event:
    if kind == "agent_message_chunk":
        return ("says", data["content"])
    if kind == "thought_message_chunk":
        return ("thinks", data["content"])
    if kind == "user_message_chunk":
        return ("hears", data["content"])
    if kind == "plan":
        return ("plans", *((step["description"], step["status"]) for step in data["steps"]))
    if kind == "tool_call":
        return ("calls", data["id"], data["tool"], data.get("input"))
    if kind == "tool_call_update":
        content = [_draft_output(data["output"])] if "output" in data else []
        return ("works", data["id"], data.get("status"), *content)
    return (kind,)


def _draft_output(output: Json) -> Event:
    if output["type"] == "diff":
        return ("diff", output["path"], *(hunk["content"] for hunk in output["hunks"]))
    if output["type"] == "terminal":
        return ("terminal", output.get("stdout"), output.get("exitCode"))
    return ("text", output["text"])


def _v2() -> Words:
    """v2: v1's names with `info`, ids of messages, and states."""
    v1 = official("v1")
    return v1._replace(
        name="v2",
        initialize=lambda files, terminals, cwd: {
            "protocolVersion": 2,
            "info": {"name": "hand", "version": "1"},
            "capabilities": {},
        },
        new=lambda cwd, session: {"cwd": cwd},
        load=lambda session, cwd: {"sessionId": session, "cwd": cwd, "replayFrom": {"type": "start"}},
        event=lambda params: _v2_event(params["update"]),
        introduction={
            "protocolVersion": 2,
            "info": {"name": "hand", "version": "1"},
            "capabilities": {"session": {}},
        },
        stopped={"messageId": "m1"},
        say=lambda session, text: {
            "sessionId": session,
            "update": {
                "sessionUpdate": "agent_message_chunk",
                "messageId": "a1",
                "content": {"type": "text", "text": text},
            },
        },
        offers=lambda params: (False, False),
    )


def _v2_event(update: Json) -> Event:
    kind = update["sessionUpdate"]
    if kind == "state_update":
        return (update["state"], update["stopReason"]) if "stopReason" in update else (update["state"],)
    if kind == "user_message":
        return ("user message", "".join(block["text"] for block in update["content"]))
    if kind == "plan_update":
        return ("plans", *((entry["content"], entry["status"]) for entry in update["plan"]["entries"]))
    return _official_event(update)


V2 = _v2()
WORDS = {words.name: words for words in (official("v1"), official("banjo"), Y2025, CROW, DRAFT)}

# v2 answers prompts at once and lends no files, so most tests of pairs have their own form for it.
ALL_WORDS = {**WORDS, "v2": V2}
