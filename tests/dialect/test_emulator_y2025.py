"""The memory of a 2025.1 connection: what its peers leave out is found out, what they cannot do is done for them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialect.emulator import SessionIds
from dragoman.dialect.y2025 import truncate
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side
from tests.dialect.emulator_harness import EmulatedCall, EmulatorHarness

SERVER = {"name": "docs", "url": "stdio:///bin/docs", "credentials": {"KEY": "k"}}
HELLO = {
    "protocol_version": "2025.1",
    "capabilities": {},
    "working_directory": "/home/ann",
    "mcp_servers": [SERVER],
}


def beside(params: Any) -> dict[str, Any]:
    found: dict[str, Any] = params.get("_meta", {}).get("dragoman", {})
    return found


# --- a client at the other end ------------------------------------------------------------------------------------


def client(
    permission: str = "ask",
    offers: tuple[str, ...] = ("text_files", "terminal"),
    session_ids: SessionIds | None = None,
) -> EmulatorHarness:
    harness = EmulatorHarness("2025.1", Side.CLIENT, permission=permission, session_ids=session_ids)
    harness.receive_call("initialize", HELLO | {"capabilities": dict.fromkeys(offers, True)})
    harness.answer({"protocolVersion": 1})
    harness.ours.clear()
    return harness


def open_session(harness: EmulatorHarness, chosen: str = "mine", agent: str = "a-1", **result: Any) -> EmulatedCall:
    asked = harness.receive_call("session/new", {"session_id": chosen})
    harness.answer({"sessionId": agent, **result})
    return asked


def test_each_session_gets_the_folder_and_servers_of_the_connection() -> None:
    """docs/protocol/dialect-matrix.md#connection-folder."""
    harness = client()
    harness.receive_call("session/new", {"session_id": "mine"})
    harness.receive_call("session/load", {"session_id": "old"})
    for method, params in harness.ours:
        assert params["cwd"] == "/home/ann", method
        assert params["mcpServers"] == [
            {"name": "docs", "command": "/bin/docs", "args": [], "env": [{"name": "KEY", "value": "k"}]}
        ]
        assert "inferred" not in beside(params)


def test_a_client_that_names_no_folder_gets_ours() -> None:
    harness = EmulatorHarness("2025.1", Side.CLIENT, cwd="/here")
    harness.receive_call("initialize", {"protocol_version": "2025.1", "capabilities": {}})
    harness.receive_call("session/new", {"session_id": "mine"})
    assert harness.ours[-1][1]["cwd"] == "/here"


def test_invalid_servers_are_reported_when_a_session_needs_them() -> None:
    harness = EmulatorHarness("2025.1", Side.CLIENT)
    harness.receive_call("initialize", HELLO | {"mcp_servers": [{"url": 3}]})
    asked = harness.receive_call("session/new", {"session_id": "mine"})
    assert asked.error.kind == Kind.INVALID_PARAMS
    assert "mcp_servers" in asked.error.message


def test_the_client_keeps_the_id_it_chose_and_the_agent_its_own() -> None:
    """docs/protocol/dialect-matrix.md#client-ids: mapped both ways on every message."""
    harness = client()
    assert open_session(harness).result == {"status": "ok", "session_id": "mine"}
    harness.receive_call("session/prompt", {"session_id": "mine", "content": [{"type": "text", "text": "hi"}]})
    harness.receive_call("session/cancel", {"session_id": "mine"})
    assert [params["sessionId"] for _, params in harness.ours[1:]] == ["a-1", "a-1"]
    text = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "ho"}}
    harness.send_call("session/update", {"sessionId": "a-1", "update": text})
    assert harness.wire == [
        ("session/update", {"session_id": "mine", "type": "agent_message_chunk", "data": {"text": "ho"}})
    ]
    harness.send_call("fs/write_text_file", {"sessionId": "a-1", "path": "/f", "content": ""})
    assert harness.wire[-1] == (
        "fs/write_text_file",
        {"path": "/f", "content": ""},
    )  # names no session (docs/protocol/dialect-matrix.md#calls-without-session)


def test_a_client_that_chooses_no_id_gets_the_agents() -> None:
    harness = client()
    asked = harness.receive_call("session/new", {})
    harness.answer({"sessionId": "a-1"})
    assert asked.result["session_id"] == "a-1"


def test_two_sessions_cannot_have_the_same_id() -> None:
    harness = client()
    open_session(harness)
    again = harness.receive_call("session/new", {"session_id": "mine"})
    assert again.error.kind == Kind.INVALID_PARAMS
    harness.receive_call("session/new", {"session_id": "other"})
    while_opening = harness.receive_call("session/new", {"session_id": "other"})
    assert while_opening.error.kind == Kind.INVALID_PARAMS


def test_the_id_of_a_session_that_failed_to_open_can_be_used_again() -> None:
    harness = client()
    refused = harness.receive_call("session/new", {"session_id": "mine"})
    harness.answer(ProtocolError(Kind.AUTH_REQUIRED, "log in"))
    assert refused.error.kind == Kind.AUTH_REQUIRED
    assert open_session(harness).result["session_id"] == "mine"


class KeptIds(dict[tuple[str, str], str]):
    """The ids that outlive a connection, in memory."""

    def find(self, cwd: str, chosen: str) -> str | None:
        return self.get((cwd, chosen))

    def add(self, cwd: str, chosen: str, session: str) -> None:
        self[cwd, chosen] = session


def test_an_id_of_an_earlier_connection_is_mapped_to_the_agents() -> None:
    kept = KeptIds()
    open_session(client(session_ids=kept))
    assert kept == {("/home/ann", "mine"): "a-1"}
    later = client(session_ids=kept)
    later.receive_call("session/load", {"session_id": "mine"})
    assert later.ours[-1][1]["sessionId"] == "a-1"
    twice = later.receive_call("session/load", {"session_id": "a-1"})
    assert "is open as 'mine'" in twice.error.message


def test_a_session_that_is_open_under_its_agents_id_is_not_opened_twice() -> None:
    later = client(session_ids=KeptIds({("/home/ann", "mine"): "a-1"}))
    later.receive_call("session/load", {"session_id": "a-1"})
    twice = later.receive_call("session/load", {"session_id": "mine"})
    assert "'mine' is open as 'a-1'" in twice.error.message


def test_a_loaded_session_is_known_before_its_replay() -> None:
    harness = client()
    open_session(harness)
    asked = harness.receive_call("session/load", {"session_id": "mine"})
    assert harness.ours[-1][1]["sessionId"] == "a-1"
    text = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "before"}}
    harness.send_call("session/update", {"sessionId": "a-1", "update": text})
    assert harness.wire[-1][1]["session_id"] == "mine"
    harness.answer({})
    assert asked.result == {"status": "ok"}


def test_a_session_cannot_be_loaded_by_the_agents_internal_id() -> None:
    harness = client()
    open_session(harness)
    assert harness.receive_call("session/load", {"session_id": "a-1"}).error.kind == Kind.INVALID_PARAMS
    harness.receive_call("session/load", {"session_id": "gone"})
    harness.answer(ProtocolError(Kind.SESSION_NOT_FOUND, "no such session"))
    assert open_session(harness, "gone", "a-2").result["session_id"] == "gone"


def test_updates_before_the_answer_to_session_new_wait_for_its_id_in_order() -> None:
    harness = client()
    first = harness.receive_call("session/new", {"session_id": "one"})
    harness.receive_call("session/new", {"session_id": "two"})
    for text in ("a", "b"):
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        harness.send_call("session/update", {"sessionId": "a-1", "update": chunk})
    assert harness.wire == []
    harness.answer({"sessionId": "a-1"})
    assert [(params["session_id"], params["data"]["text"]) for _, params in harness.wire] == [
        ("one", "a"),
        ("one", "b"),
    ]
    assert first.result["session_id"] == "one"


def test_updates_of_a_session_that_never_opens_are_dropped() -> None:
    harness = client()
    harness.receive_call("session/new", {"session_id": "one"})
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}
    harness.send_call("session/update", {"sessionId": "child", "update": chunk})
    harness.answer(ProtocolError(Kind.INTERNAL_ERROR, "no"))
    assert harness.wire[0][1]["session_id"] == "child"


MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "agent", "name": "Agent"}]}


def test_the_mode_of_a_new_session_is_set_before_the_client_gets_the_answer() -> None:
    """docs/protocol/extensions.md#choices-for-20251: `mode` is set_mode where offered."""
    harness = client()
    asked = harness.receive_call("session/new", {"session_id": "mine", "mode": "agent"})
    harness.answer({"sessionId": "a-1", "modes": MODES})
    assert harness.ours[-1] == ("session/set_mode", {"sessionId": "a-1", "modeId": "agent"})
    assert asked.is_open
    harness.answer({})
    assert asked.result["session_id"] == "mine"
    assert harness.reports == []


def test_the_current_mode_is_not_set_again() -> None:
    harness = client()
    harness.receive_call("session/new", {"session_id": "mine", "mode": "ask"})
    harness.answer({"sessionId": "a-1", "modes": MODES})
    assert [method for method, _ in harness.ours] == ["session/new"]


@pytest.mark.parametrize("modes", [None, MODES])
def test_a_mode_that_the_agent_does_not_offer_is_reported_as_lost(modes: Any) -> None:
    harness = client()
    asked = harness.receive_call("session/new", {"session_id": "mine", "mode": "dance"})
    harness.answer({"sessionId": "a-1", "modes": modes})
    assert asked.result["session_id"] == "mine"
    assert "'dance'" in harness.reports[0]
    assert "lost" in harness.reports[0]


def test_a_mode_that_the_agent_refuses_is_reported_as_lost() -> None:
    harness = client()
    asked = harness.receive_call("session/new", {"session_id": "mine", "mode": "agent"})
    harness.answer({"sessionId": "a-1", "modes": MODES})
    harness.answer(ProtocolError(Kind.INTERNAL_ERROR, "not today"))
    assert asked.result["session_id"] == "mine"
    assert "not today" in harness.reports[0]


OPTIONS = [
    {"optionId": kind, "name": kind, "kind": kind}
    for kind in ("allow_always", "allow_once", "reject_always", "reject_once")
]


def asks(harness: EmulatorHarness, options: list[dict[str, str]] = OPTIONS, **call: Any) -> str:
    """The option that is chosen for a question about this tool call."""
    params = {"sessionId": "a-1", "toolCall": {"toolCallId": "t", "title": "Do it", **call}, "options": options}
    outcome = harness.send_call("session/request_permission", params).result["outcome"]
    assert harness.wire == []
    return str(outcome.get("optionId", outcome["outcome"]))


@pytest.mark.parametrize(
    ("kind", "offers", "chosen"),
    [
        ("read", "text_files", "allow_once"),
        ("edit", "text_files", "allow_once"),
        ("delete", "text_files", "allow_once"),
        ("move", "text_files", "allow_once"),
        ("execute", "terminal", "allow_once"),
        ("read", "terminal", "reject_once"),
        ("execute", "text_files", "reject_once"),
        ("fetch", "text_files", "reject_once"),
        ("other", "terminal", "reject_once"),
    ],
)
def test_a_client_without_permission_requests_allows_what_it_runs_itself(kind: str, offers: str, chosen: str) -> None:
    """docs/protocol/extensions.md#choices-for-20251: it controls by what it serves."""
    harness = client(offers=(offers,))
    assert asks(harness, kind=kind) == chosen
    assert harness.reports[0].startswith(f"permission for Do it ({kind}): {chosen}, because ")


@pytest.mark.parametrize(("permission", "chosen"), [("allow", "allow_once"), ("deny", "reject_once")])
def test_the_users_setting_overrides_the_rule(permission: str, chosen: str) -> None:
    harness = client(permission, offers=())
    assert asks(harness, kind="execute") == chosen


def test_an_always_option_is_chosen_only_if_the_user_allowed_everything() -> None:
    for_ever = [option for option in OPTIONS if option["kind"] == "allow_always"]
    assert asks(client("allow"), for_ever) == "allow_always"
    harness = client()
    assert asks(harness, for_ever, kind="read") == "cancelled"
    assert "cancelled" in harness.reports[0]


def test_a_permission_request_without_title_and_kind_uses_those_of_the_tool_call() -> None:
    harness = client()
    open_session(harness)
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Read notes", "kind": "read"}
    harness.send_call("session/update", {"sessionId": "a-1", "update": call})
    harness.wire.clear()
    assert asks(harness, title=None) == "allow_once"
    assert harness.reports == [
        "permission for Read notes (read): allow_once, because the client cannot be asked, but serves text files itself"
    ]


def test_tool_calls_are_forgotten_with_their_turn() -> None:
    harness = client()
    open_session(harness)
    prompt = harness.receive_call("session/prompt", {"session_id": "mine", "content": []})
    asks(harness, kind="read")
    harness.answer({"stopReason": "end_turn"})
    assert prompt.result == {"status": "ok"}
    assert asks(harness) == "reject_once"


def test_a_line_range_is_cut_from_the_whole_file_of_the_client() -> None:
    harness = client()
    open_session(harness)
    asked = harness.send_call("fs/read_text_file", {"sessionId": "a-1", "path": "/f", "line": 2, "limit": 2})
    assert "line" not in beside(harness.wire[0][1])
    harness.reply({"content": "one\ntwo\nthree\nfour\n"})
    assert asked.result == {"content": "two\nthree"}
    whole = harness.send_call("fs/read_text_file", {"sessionId": "a-1", "path": "/f"})
    harness.reply({"content": "one\n"})
    assert whole.result == {"content": "one\n"}


@pytest.mark.parametrize(
    ("line", "limit", "text"),
    [
        (1, 1, "a"),
        (2, None, "b\r\nc\n"),
        (None, 2, "a\nb"),
        (0, 1, "a"),
        (3, 9, "c\n"),
        (4, 1, ""),
        (9, None, ""),
        (1, 0, ""),
        (1, 3, "a\nb\r\nc"),
    ],
)
def test_a_cut_line_range_equals_that_of_a_workspace(line: int | None, limit: int | None, text: str) -> None:
    from dragoman.workspace.text import select_lines

    assert truncate.select_lines("a\nb\r\nc\n", line, limit) == text == select_lines("a\nb\r\nc\n", line, limit).text


def test_a_negative_line_is_refused() -> None:
    harness = client()
    asked = harness.send_call("fs/read_text_file", {"sessionId": "a-1", "path": "/f", "line": -1})
    harness.reply({"content": "x"})
    assert asked.error.kind == Kind.INVALID_PARAMS


def test_terminal_output_is_cut_to_the_limit_of_the_terminal() -> None:
    harness = client()
    created = {"sessionId": "a-1", "command": "yes", "outputByteLimit": 4}
    asked = harness.send_call("terminal/create", created)
    harness.reply({"terminal_id": "t1"})
    assert asked.result == {"terminalId": "t1"}
    there = {"sessionId": "a-1", "terminalId": "t1"}
    output = harness.send_call("terminal/output", there)
    harness.reply({"output": "abcdéf", "truncated": False})
    assert output.result == {"output": "déf", "truncated": True}
    short = harness.send_call("terminal/output", there)
    harness.reply({"output": "abc", "truncated": False})
    assert short.result == {"output": "abc", "truncated": False}
    harness.send_call("terminal/release", there)
    harness.reply({"status": "ok"})
    after = harness.send_call("terminal/output", there)
    harness.reply({"output": "abcdef", "truncated": False})
    assert after.result["output"] == "abcdef"


def test_a_cut_never_splits_a_character() -> None:
    assert truncate.last_bytes("aé", 2) == ("é", True)
    assert truncate.last_bytes("aé", 1) == ("", True)
    assert truncate.last_bytes("aé", 3) == ("aé", False)


# --- an agent at the other end ------------------------------------------------------------------------------------


def agent(modes: list[str] | None = None) -> EmulatorHarness:
    harness = EmulatorHarness("2025.1", Side.AGENT, cwd="/work")
    harness.send_call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    harness.reply({"agent_info": {"name": "a", "version": "1"}, "capabilities": {"supported_modes": modes or []}})
    return harness


def session(harness: EmulatorHarness, **params: Any) -> EmulatedCall:
    asked = harness.send_call("session/new", {"cwd": "/work", "mcpServers": [], **params})
    harness.reply({"status": "ok"})
    return asked


def test_the_agent_gets_its_folder_at_initialize() -> None:
    harness = agent()
    _, params = harness.wire[0]
    assert params["working_directory"] == "/work"
    assert params["mcp_servers"] == []


def test_a_new_session_has_the_id_we_chose() -> None:
    """docs/protocol/dialect-matrix.md#client-ids."""
    harness = agent()
    assert session(harness).result["sessionId"] == "id-1"
    assert harness.wire[-1][1]["session_id"] == "id-1"
    assert session(harness).result["sessionId"] == "id-2"


def test_an_agent_that_returns_another_session_id_is_followed() -> None:
    harness = agent()
    asked = harness.send_call("session/new", {"cwd": "/work", "mcpServers": []})
    harness.reply({"status": "ok", "session_id": "its"})
    assert asked.result["sessionId"] == "its"


def test_a_session_in_another_folder_is_refused() -> None:
    """docs/protocol/dialect-matrix.md#connection-folder: whoever called starts another agent."""
    harness = agent()
    for method, more in (("session/new", {}), ("session/load", {"sessionId": "s"})):
        asked = harness.send_call(method, {"cwd": "/elsewhere", "mcpServers": [], **more})
        assert asked.error.kind == Kind.INVALID_PARAMS
        assert "one working directory" in asked.error.message
    assert len(harness.wire) == 1
    assert session(harness, cwd="/work/./").result["sessionId"] == "id-1"


def test_servers_of_a_session_are_reported_as_lost() -> None:
    harness = agent()
    session(harness, mcpServers=[{"name": "docs", "command": "d", "args": [], "env": []}])
    assert "docs" in harness.reports[0]


def test_a_session_shows_only_the_mode_that_it_has() -> None:
    """docs/protocol/dialect-matrix.md#fixed-modes: no other can be chosen."""
    harness = agent(["agent", "ask"])
    modes = session(harness).result["modes"]
    assert modes["currentModeId"] == "agent"
    assert [mode["id"] for mode in modes["availableModes"]] == ["agent"]
    assert harness.send_call("session/set_mode", {"sessionId": "id-1", "modeId": "agent"}).result == {}
    assert "modes" not in session(agent()).result


@pytest.mark.parametrize("name", ["mode", "initialMode"])
def test_an_initial_mode_is_sent_with_session_new(name: str) -> None:
    harness = agent(["agent", "ask"])
    asked = session(harness, _meta={"dragoman": {name: "ask"}})
    assert harness.wire[-1][1]["mode"] == "ask"
    assert asked.result["modes"]["currentModeId"] == "ask"


def test_the_mode_is_fixed_once_a_session_exists() -> None:
    """docs/protocol/dialect-matrix.md#fixed-modes."""
    harness = agent(["agent", "ask"])
    session(harness)
    asked = harness.send_call("session/set_mode", {"sessionId": "id-1", "modeId": "ask"})
    assert asked.error.kind == Kind.CAPABILITY_UNSUPPORTED
    assert "session/new" in asked.error.message
    same = harness.send_call("session/set_mode", {"sessionId": "id-1", "modeId": "agent"})
    assert same.result == {}


def prompt(harness: EmulatorHarness, id: str) -> EmulatedCall:
    return harness.send_call("session/prompt", {"sessionId": id, "prompt": []})


def test_a_turn_that_we_cancelled_ended_as_cancelled() -> None:
    """docs/protocol/dialect-matrix.md#status-ok: the agent only says ok."""
    harness = agent()
    session(harness)
    asked = prompt(harness, "id-1")
    harness.send_call("session/cancel", {"sessionId": "id-1"})
    harness.reply({"status": "ok"})
    assert asked.result["stopReason"] == "cancelled"
    after = prompt(harness, "id-1")
    harness.reply({"status": "ok"})
    assert after.result["stopReason"] == "end_turn"


def test_a_stop_reason_of_the_agent_is_kept() -> None:
    harness = agent()
    session(harness)
    asked = prompt(harness, "id-1")
    harness.send_call("session/cancel", {"sessionId": "id-1"})
    harness.reply({"status": "ok", "stop_reason": "max_tokens"})
    assert asked.result["stopReason"] == "max_tokens"


def owner(harness: EmulatorHarness, method: str, **params: Any) -> str:
    harness.receive_call(method, params)
    return str(harness.ours[-1][1]["sessionId"])


def test_a_call_without_a_session_belongs_to_the_only_one() -> None:
    """docs/protocol/dialect-matrix.md#calls-without-session."""
    harness = agent()
    session(harness)
    assert owner(harness, "fs/read_text_file", path="/anywhere") == "id-1"


def test_with_several_sessions_a_call_belongs_to_the_only_open_turn() -> None:
    harness = agent()
    session(harness)
    session(harness)
    prompt(harness, "id-1")
    assert owner(harness, "fs/write_text_file", path="/anywhere", content="") == "id-1"


def test_a_terminal_belongs_to_the_session_that_created_it() -> None:
    harness = agent()
    session(harness)
    session(harness)
    prompt(harness, "id-1")
    assert owner(harness, "terminal/create", command="ls") == "id-1"
    harness.answer({"terminalId": "t1"})
    prompt(harness, "id-2")
    for method in ("terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"):
        assert owner(harness, method, terminal_id="t1") == "id-1"


def test_among_several_open_turns_the_path_decides() -> None:
    harness = agent()
    session(harness, additionalDirectories=["/lib"])
    session(harness)
    prompt(harness, "id-1")
    prompt(harness, "id-2")
    assert owner(harness, "fs/read_text_file", path="/work/notes") == "id-2"
    assert owner(harness, "fs/read_text_file", path="/lib/x") == "id-1"
    assert owner(harness, "terminal/create", command="ls") == "id-2"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("fs/read_text_file", {"path": "/etc/passwd"}),
        ("fs/read_text_file", {"path": "/work/../etc/passwd"}),
        ("fs/read_text_file", {"path": "/workshop/x"}),
        ("terminal/output", {"terminal_id": "nobody's"}),
    ],
)
def test_an_ambiguous_request_is_refused(method: str, params: dict[str, str]) -> None:
    harness = agent()
    session(harness)
    session(harness)
    asked = harness.receive_call(method, params)
    assert asked.error.kind == Kind.ACCESS_DENIED
    assert "2 sessions match" in asked.error.message
    assert harness.ours == []


def test_a_call_before_any_session_is_refused() -> None:
    assert agent().receive_call("fs/read_text_file", {"path": "/work/x"}).error.kind == Kind.ACCESS_DENIED
