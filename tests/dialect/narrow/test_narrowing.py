"""Plans, options, states, notices and questions for clients that know less."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dragoman.dialect.narrow.client_view import ClientView, view_of
from dragoman.dialect.narrow.loss import LOSSES, Loss, LossReports
from dragoman.engine.codec import decode_as
from dragoman.schema.base import to_json
from dragoman.schema.initialize import ClientCapabilities
from dragoman.schema.prompt import PromptResult
from dragoman.schema.session import NewSessionResult
from tests.dialect.narrow.client import NarrowClient, content, text


def entry(words: str, status: str = "pending") -> dict[str, str]:
    return {"content": words, "priority": "medium", "status": status}


# --- plans --------------------------------------------------------------------------------------------------------


def items(id: str, *entries: dict[str, str]) -> dict[str, Any]:
    return {"type": "items", "planId": id, "entries": list(entries)}


def test_a_client_with_plans_gets_them_as_they_are() -> None:
    client = NarrowClient(plans=True)
    [update] = client.update("plan_update", plan=items("p", entry("a", "cancelled")))
    assert update == {"sessionUpdate": "plan_update", "plan": items("p", entry("a", "cancelled"))}
    assert client.update("plan_removed", planId="p") == [{"sessionUpdate": "plan_removed", "planId": "p"}]


def test_another_client_gets_the_plan_that_changed_last() -> None:
    client = NarrowClient()
    assert client.update("plan_update", plan=items("p", entry("a"))) == [
        {"sessionUpdate": "plan", "entries": [entry("a")]}
    ]
    assert client.losses() == []
    assert client.update("plan_update", plan=items("q", entry("b"))) == [
        {"sessionUpdate": "plan", "entries": [entry("b")]}
    ]
    assert client.losses() == ["plans"]
    assert client.update("plan_removed", planId="p") == []
    assert client.update("plan_removed", planId="q") == [{"sessionUpdate": "plan", "entries": []}]


def test_cancelled_entries_are_only_named() -> None:
    client = NarrowClient()
    [update] = client.update("plan_update", plan=items("p", entry("a"), entry("b", "cancelled")))
    assert update == {
        "sessionUpdate": "plan", "entries": [entry("a")], "_meta": {"dragoman": {"cancelled": ["b"]}}
    }  # fmt: skip
    assert client.losses() == ["cancelled_entry"]


@pytest.mark.parametrize(
    ("plan", "entries"),
    [
        ({"type": "markdown", "content": "# Do\n\n- [x] a\n  1. b \n* [ ] c"},
         [entry("a", "completed"), entry("b"), entry("c")]),
        ({"type": "markdown", "content": "\n## First think\nthen act"}, [entry("First think")]),
        ({"type": "markdown", "content": " \n"}, []),
        ({"type": "file", "uri": "file:///plan.md"}, [entry("file:///plan.md")]),
    ],
)  # fmt: skip
def test_plans_of_other_forms_become_entries(plan: dict[str, str], entries: list[Any]) -> None:
    client = NarrowClient()
    assert client.update("plan_update", plan={**plan, "planId": "p"}) == [{"sessionUpdate": "plan", "entries": entries}]
    assert client.losses() == ["plan_form"]


# --- options and modes --------------------------------------------------------------------------------------------

MODE = {
    "id": "m", "name": "Mode", "type": "select", "category": "mode", "currentValue": "ask",
    "options": [
        {"group": "g", "name": "G", "options": [{"value": "ask", "name": "Ask"}]},
        {"group": "h", "name": "H", "options": [{"value": "code", "name": "Code", "description": "writes"}]},
    ],
}  # fmt: skip
SWITCH = {"id": "w", "name": "Web", "type": "boolean", "currentValue": True}


def test_a_session_gets_modes_from_the_option_that_chooses_them() -> None:
    client = NarrowClient()
    result = decode_as(NewSessionResult, {"sessionId": "s", "configOptions": [SWITCH, MODE]})
    narrow = to_json(client.narrowing.opening_result("s", result))
    assert narrow["modes"] == {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code", "description": "writes"}],
    }
    assert narrow["configOptions"] == [MODE]


def test_modes_of_the_agent_stay() -> None:
    modes = {"currentModeId": "x", "availableModes": [{"id": "x", "name": "X"}]}
    result = decode_as(NewSessionResult, {"sessionId": "s", "modes": modes, "configOptions": [MODE]})
    assert to_json(NarrowClient().narrowing.opening_result("s", result))["modes"] == modes


def open_client(**view: Any) -> NarrowClient:
    client = NarrowClient(**view)
    client.narrowing.opening_result("s", decode_as(NewSessionResult, {"sessionId": "s", "configOptions": [MODE]}))
    return client


def test_a_changed_mode_is_told_as_an_option_and_as_a_mode_once() -> None:
    client = open_client()
    code = {**MODE, "currentValue": "code"}
    options = {"sessionUpdate": "config_option_update", "configOptions": [code]}
    mode = {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
    assert client.update("config_option_update", configOptions=[code]) == [options, mode]
    assert client.update("config_option_update", configOptions=[code]) == [options]
    assert client.update("current_mode_update", currentModeId="code") == []


def test_options_that_the_client_cannot_show_are_left_out() -> None:
    color = {"id": "c", "name": "Color", "type": "_color", "currentValue": "red"}
    client = open_client()
    [update] = client.update("config_option_update", configOptions=[SWITCH, MODE, color])
    assert update["configOptions"] == [MODE]
    assert client.losses() == ["option_type"]
    [update] = open_client(switches=True).update("config_option_update", configOptions=[SWITCH, MODE])
    assert update["configOptions"] == [SWITCH, MODE]


# --- what depends on capabilities ---------------------------------------------------------------------------------


def test_capabilities_say_what_a_client_shows() -> None:
    said = {
        "plan": {}, "subagents": {}, "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
        "_meta": {"terminal_output": True, "terminal_output_delta": True},
    }  # fmt: skip
    assert view_of(decode_as(ClientCapabilities, said)) == ClientView(
        plans=True, subagents=True, notices=True, compaction=True, switches=True, output_key="terminal_output_delta"
    )
    few = {"session": {"notices": None}, "_meta": {"terminal_output": True}}
    assert view_of(decode_as(ClientCapabilities, few)) == ClientView(output_key="terminal_output")
    assert view_of(None) == view_of(ClientCapabilities()) == ClientView()


GATED: list[tuple[str, str, dict[str, Any]]] = [
    ("notices", "notice", {"severity": "info", "title": "Hi"}),
    ("compaction", "compaction_update", {"compactionId": "k", "status": "completed", "summary": [text("x")]}),
    ("compaction", "compaction_summary_chunk", {"compactionId": "k", "content": text("x")}),
    ("subagents", "subagent_update", {"sessionId": "child"}),
    ("subagents", "session_message", {"messageId": "m", "content": [text("x")]}),
    ("subagents", "session_message_chunk", {"messageId": "m", "content": text("x")}),
]


@pytest.mark.parametrize(("capability", "kind", "members"), GATED)
def test_some_updates_need_a_capability(capability: str, kind: str, members: dict[str, Any]) -> None:
    client = NarrowClient(**{capability: True})
    assert client.update(kind, **members) == [{"sessionUpdate": kind, **members}]
    assert client.losses() == []
    client = NarrowClient()
    assert client.update(kind, **members) == []
    assert client.losses() == [capability]


def test_an_error_notice_is_reported_to_the_user() -> None:
    client = NarrowClient()
    client.update("notice", severity="error", title="No key", description="log in")
    assert "the agent reports: No key: log in" in client.reports


@pytest.mark.parametrize(
    ("kind", "members"),
    [("usage_update", {"used": 1, "size": 2}), ("session_info_update", {"title": "T"}),
     ("available_commands_update", {"availableCommands": []}), ("current_mode_update", {"currentModeId": "x"}),
     ("plan", {"entries": [entry("a")]})],
)  # fmt: skip
def test_other_updates_pass(kind: str, members: dict[str, Any]) -> None:
    assert NarrowClient().update(kind, **members) == [{"sessionUpdate": kind, **members}]


def test_unknown_updates_are_left_out_and_reported_once() -> None:
    client = NarrowClient()
    assert client.update("_weather", sky="blue") == client.update("_weather", sky="gray") == []
    assert client.losses() == ["unknown_update _weather"]


def test_states_are_not_told() -> None:
    client = NarrowClient()
    client.narrowing.begin_turn("s")
    assert client.update("state_update", state="running") == []
    assert client.losses() == []
    assert client.update("state_update", state="requires_action") == []
    assert client.update("state_update", state="_dreaming") == []
    background = [{"type": "terminal", "terminalId": "t"}]
    assert client.update("state_update", state="idle", stopReason="end_turn", background=background) == []
    client.narrowing.end_turn("s")
    assert client.update("state_update", state="running") == []
    assert client.losses() == ["requires_action", "custom_state _dreaming", "background", "session_state"]


def test_a_stop_reason_of_the_agents_own_is_the_end_of_the_turn() -> None:
    client = NarrowClient()
    result = client.narrowing.prompt_result(PromptResult(stop_reason="_bored"))
    assert to_json(result) == {"stopReason": "end_turn", "_meta": {"dragoman": {"stopReason": "_bored"}}}
    for reason in ("cancelled", "refusal", "error"):
        assert client.narrowing.prompt_result(known := PromptResult(stop_reason=reason)) is known


# --- questions ----------------------------------------------------------------------------------------------------

YES = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
ABOUT_CALL = {"type": "tool_call"}


def test_a_question_about_an_unknown_call_starts_it() -> None:
    client = NarrowClient()
    call = {"toolCallId": "c", "kind": "edit", "content": [content("x")]}
    before, question = client.question(title="Write a?", subject=ABOUT_CALL, toolCall=call, options=[YES])
    assert before == [{"sessionUpdate": "tool_call", **call, "title": "Write a?"}]
    assert question == {"sessionId": "s", "toolCall": {**call, "title": "Write a?"}, "options": [YES]}
    assert client.losses() == []


def test_another_title_and_the_description_are_shown_before_the_content() -> None:
    client = NarrowClient()
    client.update("tool_call_update", toolCallId="c", title="Edit a.py", content=[content("x")])
    before, question = client.question(
        title="Write outside?", description="It is elsewhere.", subject=ABOUT_CALL, toolCall={"toolCallId": "c"}
    )
    assert before == []
    asked = content("Write outside?\n\nIt is elsewhere.")
    assert question["toolCall"] == {"toolCallId": "c", "content": [asked, content("x")]}
    assert client.losses() == ["permission_text"]
    assert client.update("tool_call_update", toolCallId="c", status="in_progress") == [
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress", "content": [content("x")]}
    ]
    [again] = client.update("tool_call_update", toolCallId="c", status="completed")
    assert "content" not in again


def test_a_question_brings_contents_that_still_wait() -> None:
    client = NarrowClient()
    client.update("tool_call_update", toolCallId="c", title="Edit")
    client.update("tool_call_content_chunk", toolCallId="c", content=content("x"))
    _, question = client.question(title="Edit", subject=ABOUT_CALL, toolCall={"toolCallId": "c"})
    assert question["toolCall"] == {"toolCallId": "c", "content": [content("x")]}
    assert client.wait() == []


def test_a_question_about_a_command_names_it() -> None:
    client = NarrowClient()
    subject = {"type": "command", "command": "rm -r x", "cwd": "/w"}
    before, question = client.question(
        title="Run it?", description="careful", subject=subject, toolCall={"toolCallId": "permission:1"}
    )
    assert before == []
    assert question["toolCall"] == {
        "toolCallId": "permission:1", "title": "Run it?", "kind": "execute", "content": [content("careful")],
        "rawInput": {"command": "rm -r x", "cwd": "/w"},
    }  # fmt: skip
    assert client.losses() == ["permission_subject", "permission_text"]


def test_a_question_about_a_command_of_a_known_call_is_about_that_call() -> None:
    client = NarrowClient()
    client.update("tool_call_update", toolCallId="c", title="Run it?")
    subject = {"type": "command", "command": "ls", "cwd": "/w", "toolCallId": "c"}
    _, question = client.question(title="Run it?", subject=subject, toolCall={"toolCallId": "c", "title": "Run it?"})
    assert question["toolCall"] == {"toolCallId": "c", "kind": "execute", "rawInput": {"command": "ls", "cwd": "/w"}}
    _, question = client.question(title="Again?", subject=subject, toolCall={"toolCallId": "c", "title": "Again?"})
    assert "title" not in question["toolCall"]
    assert question["toolCall"]["content"] == [content("Again?")]


@pytest.mark.parametrize("subject", [None, {"type": "_network", "host": "x"}])
@pytest.mark.parametrize("members", [{}, {"content": [content("To x.")]}])
def test_a_question_about_anything_else_has_a_call_of_its_own(subject: Any, members: Any) -> None:
    client = NarrowClient()
    call = {"toolCallId": "permission:1", **members}
    before, question = client.question(title="Go online?", description="To x.", subject=subject, toolCall=call)
    assert before == []
    assert question == {
        "sessionId": "s", "options": [],
        "toolCall": {**call, "title": "Go online?", "kind": "other", "content": [content("To x.")]},
    }  # fmt: skip


@pytest.mark.item("V2-18")
def test_an_answer_of_an_unknown_kind_is_never_an_approval() -> None:
    client = NarrowClient()
    options = [YES, {"optionId": "f", "name": "For now", "kind": "_allow_today"}]
    _, question = client.question(toolCall={"toolCallId": "c", "title": "T"}, options=options)
    assert [option["kind"] for option in question["options"]] == ["allow_once", "reject_once"]
    assert client.losses() == ["permission_option _allow_today"]


def test_a_patch_in_a_question_is_a_diff() -> None:
    wide = {"type": "patch", "changes": [{"operation": "delete", "path": "/w/b"}]}
    call = {"toolCallId": "c", "title": "T", "content": [wide]}
    before, question = NarrowClient().question(title="T", subject=ABOUT_CALL, toolCall=call)
    for each in (before[0], question["toolCall"]):
        assert each["content"] == [content("deleted /w/b")]
        assert each["locations"] == [{"path": "/w/b"}]


# --- losses -------------------------------------------------------------------------------------------------------


def test_every_loss_has_a_name_and_a_sentence() -> None:
    names = [value for name, value in vars(Loss).items() if name.isupper()]
    assert sorted(names) == sorted(LOSSES)
    assert all(re.fullmatch(r"[a-z_]+", name) for name in names)


@pytest.mark.item("V2-29")
def test_a_loss_is_reported_once() -> None:
    reports = LossReports()
    for _ in range(2):
        for name in LOSSES:
            reports.add(name)
    assert len(reports.take()) == len(LOSSES)
    assert reports.take() == []
