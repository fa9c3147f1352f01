"""Clients written with the official SDKs and our everything agent: they understand each other in every part of v1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.commands import EVERYTHING
from tests.interop.remote import RemoteClient


@pytest.fixture(scope="module")
def agent(remote: RemoteClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteClient]:
    """The client with an agent that all tests of this module share."""
    remote("start", command=EVERYTHING, cwd=str(tmp_path_factory.mktemp("agent")))
    yield remote
    remote("stop")


@pytest.fixture
def session(agent: RemoteClient, folder: Path) -> str:
    """A session that was opened."""
    return str(agent("new", cwd=str(folder)).result["sessionId"])


def test_a_new_session_sends_its_modes_options_and_commands(agent: RemoteClient, folder: Path) -> None:
    opened = agent("new", cwd=str(folder))
    assert opened.result["modes"]["currentModeId"] == "ask"
    assert [option["id"] for option in opened.result["configOptions"]] == ["model", "verbose"]
    received = [*opened.updates, *agent("prompt", session=opened.result["sessionId"], text="/echo").updates]
    (commands,) = [update for update in received if update["sessionUpdate"] == "available_commands_update"]
    names = {command["name"] for command in commands["availableCommands"]}
    assert {"echo", "think", "plan", "read", "write", "run", "ask", "slow"} <= names


def test_plain_text_is_echoed_in_several_chunks(agent: RemoteClient, session: str) -> None:
    turn = agent("prompt", session=session, text="eins zwei drei vier fünf 😀")
    assert turn.result["stopReason"] == "end_turn"
    assert set(turn.kinds()) == {"agent_message_chunk"}
    assert len(turn.kinds()) > 3
    assert "> eins zwei drei vier fünf 😀\n" in turn.text


def test_text_of_every_script_is_echoed_and_half_an_emoji_causes_no_error(agent: RemoteClient, session: str) -> None:
    assert agent("prompt", session=session, text="/echo ß 中文 \u2028 😀 \x00").text == "ß 中文 \u2028 😀 \x00"
    assert agent("prompt", session=session, text="/echo half \ud83d").text == "half \ufffd"


def test_a_megabyte_is_echoed_in_one_chunk(agent: RemoteClient, session: str) -> None:
    turn = agent("prompt", session=session, text="/echo " + "ö" * 1_000_000)
    assert turn.kinds() == ["agent_message_chunk"]
    assert turn.text == "ö" * 1_000_000


def test_a_thought_is_sent_before_the_answer(agent: RemoteClient, session: str) -> None:
    turn = agent("prompt", session=session, text="/think hm")
    assert turn.kinds() == ["agent_thought_chunk", "agent_message_chunk"]
    assert turn.updates[-2]["content"] == {"type": "text", "text": "hm"}


def test_a_plan_is_updated_step_by_step(agent: RemoteClient, session: str) -> None:
    plans = agent("prompt", session=session, text="/plan").of("plan")
    statuses = [[entry["status"] for entry in plan["entries"]] for plan in plans]
    assert statuses[0] == ["in_progress", "pending", "pending"]
    assert statuses[-1] == ["completed", "completed", "completed"]
    assert {entry["priority"] for entry in plans[0]["entries"]} == {"high", "medium", "low"}


def test_a_file_of_the_client_is_read(agent: RemoteClient, session: str, folder: Path) -> None:
    (folder / "ö.txt").write_text("eins\nzwei\n", encoding="utf-8")
    turn = agent("prompt", session=session, text="/read ö.txt")
    assert turn.calls == ["read"]
    start, *progress = turn.of("tool_call") + turn.of("tool_call_update")
    assert (start["kind"], start["locations"]) == ("read", [{"path": f"{folder}/ö.txt"}])
    assert progress[-1]["status"] == "completed"
    assert "2 lines" in turn.text


def test_a_missing_file_is_reported_in_the_answer(agent: RemoteClient, session: str) -> None:
    turn = agent("prompt", session=session, text="/read none.txt")
    assert turn.result["stopReason"] == "end_turn"
    assert turn.of("tool_call_update")[-1]["status"] == "failed"
    assert "did not work" in turn.text


def test_a_file_is_written_if_it_is_allowed(agent: RemoteClient, session: str, folder: Path) -> None:
    turn = agent("prompt", session=session, text="/write new.txt zwei Wörter", answer="allow_once")
    (question,) = turn.asked
    assert question["toolCall"]["kind"] == "edit"
    assert question["toolCall"]["content"][0]["newText"] == "zwei Wörter"
    assert {option["kind"] for option in question["options"]} >= {"allow_once", "reject_once"}
    assert turn.calls == ["read", "write"]
    assert turn.of("tool_call_update")[-1]["status"] == "completed"
    assert (folder / "new.txt").read_text(encoding="utf-8") == "zwei Wörter"


@pytest.mark.parametrize("answer", ["reject_once", None])
def test_a_file_is_not_written_if_it_is_not_allowed(
    agent: RemoteClient, session: str, folder: Path, answer: str | None
) -> None:
    turn = agent("prompt", session=session, text="/write new.txt text", answer=answer)
    assert turn.result["stopReason"] == "end_turn"
    assert turn.calls == ["read"]
    assert turn.of("tool_call_update")[-1]["status"] == "failed"
    assert not (folder / "new.txt").exists()


@pytest.mark.parametrize(
    ("answer", "said"),
    [("allow_once", "allows"), ("allow_always", "allows"), ("reject_once", "refuses"), (None, "without an answer")],
)
def test_a_permission_request_is_sent_and_its_answer_read(
    agent: RemoteClient, session: str, answer: str | None, said: str
) -> None:
    turn = agent("prompt", session=session, text="/ask", answer=answer)
    assert len(turn.asked) == 1
    assert said in turn.text


def test_a_command_runs_in_a_terminal_of_the_agent(agent: RemoteClient, session: str, folder: Path) -> None:
    turn = agent("prompt", session=session, text="/run echo hällo > out; exit 3", answer="allow_once")
    assert turn.calls == ["create", "wait", "output", "release"]
    assert (folder / "out").read_text(encoding="utf-8") == "hällo\n"
    contents = [update["content"] for update in turn.of("tool_call_update") if "content" in update]
    assert contents[0][0]["type"] == "terminal"
    assert "exit code 3" in turn.text


@pytest.mark.item("003-08", "003-17")
def test_a_running_turn_is_cancelled_and_the_session_continues(agent: RemoteClient, session: str) -> None:
    turn = agent("prompt", session=session, text="/slow 300", cancel_on="tool_call_update")
    assert turn.result["stopReason"] == "cancelled"
    assert turn.of("tool_call_update")[-1]["status"] == "failed"  # v1 has no word for a cancelled call
    assert agent("prompt", session=session, text="/echo on").text == "on"


def test_a_running_command_ends_when_the_turn_is_cancelled(agent: RemoteClient, session: str) -> None:
    turn = agent("prompt", session=session, text="/run sleep 300", answer="allow_once", cancel_on="wait")
    assert turn.result["stopReason"] == "cancelled"
    assert turn.calls == ["create", "wait", "release"]


def test_a_turn_is_cancelled_during_a_permission_request(agent: RemoteClient, session: str) -> None:
    turn = agent("prompt", session=session, text="/ask", cancel_on="question")
    assert turn.result["stopReason"] == "cancelled"
    assert agent("prompt", session=session, text="/echo on").text == "on"


def test_a_session_is_loaded_with_its_history(agent: RemoteClient, session: str, folder: Path) -> None:
    agent("prompt", session=session, text="/echo first")
    agent("prompt", session=session, text="/plan")
    loaded = agent("load", session=session, cwd=str(folder))
    assert loaded.result["modes"]["currentModeId"] == "ask"
    replayed = [u["content"]["text"] for u in loaded.updates if u["sessionUpdate"].endswith("message_chunk")]
    assert replayed[:3] == ["/echo first", "first", "/plan"]
    assert "plan" in loaded.kinds()
    assert agent("prompt", session=session, text="/echo on").text == "on"


def test_loading_an_unknown_session_is_an_error(agent: RemoteClient, folder: Path) -> None:
    assert agent.tried("load", session="nobody", cwd=str(folder)).error["code"] == -32002


def test_sessions_are_listed(agent: RemoteClient, session: str, folder: Path) -> None:
    agent("prompt", session=session, text="/title Ein Titel")
    (listed,) = agent("list", cwd=str(folder)).result["sessions"]
    assert (listed["sessionId"], listed["cwd"], listed["title"]) == (session, str(folder), "Ein Titel")


def test_the_code_mode_sends_no_permission_request(agent: RemoteClient, session: str, folder: Path) -> None:
    changed = agent("mode", session=session, mode="code")
    turn = agent("prompt", session=session, text="/write new.txt text")
    mode_updates = changed.of("current_mode_update") + turn.of("current_mode_update")
    assert [update["currentModeId"] for update in mode_updates] == ["code"]
    assert turn.asked == []
    assert (folder / "new.txt").read_text() == "text"


def test_an_unknown_mode_is_an_error(agent: RemoteClient, session: str) -> None:
    assert agent.tried("mode", session=session, mode="none").error["code"] == -32602


def test_options_are_changed(agent: RemoteClient, session: str) -> None:
    changed = agent("option", session=session, option="model", value="loud").result["configOptions"]
    assert {option["id"]: option["currentValue"] for option in changed} == {"model": "loud", "verbose": False}
    changed = agent("option", session=session, option="verbose", value=True).result["configOptions"]
    assert {option["id"]: option["currentValue"] for option in changed} == {"model": "loud", "verbose": True}
    turn = agent("prompt", session=session, text="leise")
    assert turn.kinds()[0] == "agent_thought_chunk"
    assert "> LEISE" in turn.text


def test_every_kind_of_content_is_read(agent: RemoteClient, session: str) -> None:
    for command, kind in (("/image", "image"), ("/audio", "audio"), ("/resource", "resource")):
        turn = agent("prompt", session=session, text=command)
        assert kind in [update["content"]["type"] for update in turn.of("agent_message_chunk")]


def test_usage_and_title_are_read(agent: RemoteClient, session: str) -> None:
    assert agent("prompt", session=session, text="/usage").of("usage_update")[0]["size"] == 8000
    assert agent("prompt", session=session, text="/title T").of("session_info_update")[0]["title"] == "T"


def test_an_error_and_a_refusal_reach_the_client(agent: RemoteClient, session: str) -> None:
    error = agent.tried("prompt", session=session, text="/error auth_required").error
    assert error["code"] == -32000
    assert agent("prompt", session=session, text="/error refusal").result["stopReason"] == "refusal"
    assert agent.tried("prompt", session="nobody", text="hi").error is not None


def test_an_extension_that_we_do_not_know_is_an_error(agent: RemoteClient) -> None:
    assert agent.tried("extension", method="example.org/unknown", params={"a": 1}).error["code"] == -32601
