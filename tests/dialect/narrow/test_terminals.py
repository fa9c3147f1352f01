"""Terminals that the agent runs, for clients that know only terminals of their own."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialect.narrow.terminal_text import CLEAR_SCREEN, TerminalText, transcript
from dragoman.schema.terminal import TerminalExitStatus
from tests.dialect.narrow.client import NarrowClient, content

EMBED = {"type": "agent_terminal", "terminalId": "t"}
KEYS = ("terminal_output", "terminal_output_delta")


def base64_of(data: bytes | str) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def output(client: NarrowClient, data: bytes | str) -> list[Any]:
    return client.update("terminal_output_chunk", terminalId="t", data=base64_of(data))


def change(client: NarrowClient, **members: Any) -> list[Any]:
    return client.update("terminal_update", terminalId="t", **members)


def client_showing(**view: Any) -> NarrowClient:
    """A client that has a tool call which shows the terminal."""
    client = NarrowClient(**view)
    client.update("tool_call_update", toolCallId="c", title="Make", status="in_progress", content=[EMBED])
    return client


def shown_texts(updates: list[Any]) -> list[str]:
    """The texts of the tool call."""
    return [item["content"]["text"] for update in updates for item in update["content"]]


# --- as text ------------------------------------------------------------------------------------------------------


@pytest.mark.item("V2-24")
def test_output_is_text_in_the_tool_call_that_shows_the_terminal() -> None:
    client = client_showing()
    assert output(client, "one\n") == []
    assert output(client, "two\n") == []
    assert client.narrowing.pending("s") == ["terminals"]
    [update] = client.wait()
    assert update == {
        "sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [content("```\none\ntwo\n```")]
    }  # fmt: skip
    assert client.wait() == []


def test_the_end_of_a_command_is_told_at_once() -> None:
    client = client_showing()
    output(client, "no\n")
    assert shown_texts(change(client, exitStatus={"exitCode": 2})) == ["```\nno\n```\n[exit code 2]"]
    assert client.narrowing.pending("s") == []


@pytest.mark.parametrize(
    ("status", "line"),
    [({"exitCode": 0}, "[exit code 0]"), ({"signal": "SIGKILL"}, "[ended by SIGKILL]"), ({}, "[ended]"),
     ({"exitCode": None, "signal": None}, "[ended]")],
)  # fmt: skip
def test_every_way_to_end_has_a_line(status: dict[str, Any], line: str) -> None:
    assert shown_texts(change(client_showing(), exitStatus=status)) == [f"(no output)\n{line}"]


def test_a_tool_call_that_comes_after_the_output_shows_all_of_it() -> None:
    client = NarrowClient()
    change(client, command="make")
    output(client, "one\n")
    [start] = client.update("tool_call_update", toolCallId="c", content=[content("see"), EMBED])
    assert start["content"] == [content("see"), content("```\none\n```")]
    assert client.wait() == []


def test_a_terminal_that_nothing_shows_gets_a_tool_call_of_its_own() -> None:
    client = NarrowClient()
    assert change(client, command="make -j2", cwd="/w") == []
    output(client, "one\n")
    assert client.wait() == [
        {
            "sessionUpdate": "tool_call", "toolCallId": "terminal:t", "title": "make -j2", "kind": "execute",
            "status": "in_progress", "content": [content("```\none\n```")],
        }
    ]  # fmt: skip
    assert change(client, exitStatus={"exitCode": 1}) == []
    [update] = client.wait()
    assert (update["sessionUpdate"], update["status"]) == ("tool_call_update", "failed")


def test_a_tool_call_that_shows_the_terminal_later_ends_the_other_one() -> None:
    client = NarrowClient()
    output(client, "one\n")
    client.wait()
    start, end = client.update("tool_call_update", toolCallId="c", content=[EMBED])
    assert start["content"] == [content("```\none\n```")]
    assert end == {
        "sessionUpdate": "tool_call_update", "toolCallId": "terminal:t", "status": "completed", "content": []
    }  # fmt: skip
    output(client, "two\n")
    assert [update["toolCallId"] for update in client.wait()] == ["c"]
    client.update("tool_call_update", toolCallId="c", content=[])
    output(client, "three\n")
    [again] = client.wait()
    assert (again["sessionUpdate"], again["status"]) == ("tool_call_update", "in_progress")
    assert shown_texts([again]) == ["```\none\ntwo\nthree\n```"]


@pytest.mark.item("V2-24")
def test_a_snapshot_replaces_the_output() -> None:
    client = client_showing()
    output(client, "one\n")
    change(client, output={"data": base64_of("other\n")})
    assert shown_texts(client.wait()) == ["```\nother\n```"]
    change(client, output=None)
    assert shown_texts(client.wait()) == ["(no output yet)"]


def test_control_sequences_are_removed_and_reported() -> None:
    client = client_showing()
    output(client, "\x1b[31mred\x1b[0m\x1b]0;title\x07 10%\r20%\r\nab\bc\x01\x1b[")
    assert shown_texts(client.wait()) == ["```\n20%\nac␁\n```"]
    assert client.losses() == ["terminal_style"]


def test_bytes_that_are_no_text_are_replaced_and_reported() -> None:
    client = client_showing()
    output(client, b"a\xff")
    assert shown_texts(client.wait()) == ["```\na\ufffd\n```"]
    assert client.losses() == ["terminal_bytes"]
    client.update("terminal_output_chunk", terminalId="t", data="not base64!")
    assert client.losses() == []  # once


def test_a_fence_is_longer_than_those_in_the_output() -> None:
    client = client_showing()
    output(client, "```\n")
    assert shown_texts(client.wait()) == ["````\n```\n````"]


def test_two_calls_may_show_one_terminal() -> None:
    client = client_showing()
    client.update("tool_call_update", toolCallId="d", content=[EMBED])
    output(client, "one\n")
    assert [update["toolCallId"] for update in client.wait()] == ["c", "d"]
    client.update("tool_call_update", toolCallId="c", content=[])
    output(client, "two\n")
    assert [update["toolCallId"] for update in client.wait()] == ["d"]


def test_one_call_may_show_two_terminals() -> None:
    client = NarrowClient()
    items = [EMBED, {"type": "agent_terminal", "terminalId": "u"}]
    client.update("tool_call_update", toolCallId="c", content=items)
    client.update("terminal_update", terminalId="u", exitStatus={"exitCode": 0})
    client.update("terminal_output_chunk", terminalId="u", data=base64_of("late"))
    [update] = change(client, exitStatus={"exitCode": 0})
    assert shown_texts([update]) == ["(no output)\n[exit code 0]", "```\nlate\n```\n[exit code 0]"]
    assert client.wait() == []


def test_cancel_of_a_terminal_is_reported_as_lost() -> None:
    client = client_showing()
    change(client, capabilities={"cancel": {}})
    assert client.losses() == ["cancel_terminal"]


# --- in the `_meta` of tool calls ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
def test_a_client_that_announced_it_gets_pieces_of_output(key: str) -> None:
    client = NarrowClient(output_key=key)
    change(client, command="make", cwd="/w")
    output(client, "be")
    start, piece = client.update("tool_call_update", toolCallId="c", title="Make", content=[EMBED])
    assert start == {
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Make",
        "content": [{"type": "terminal", "terminalId": "t"}],
        "_meta": {"terminal_info": {"terminal_id": "t", "cwd": "/w"}},
    }  # fmt: skip
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c"}
    assert piece == {**update, "_meta": {key: {"terminal_id": "t", "data": "be"}}}
    assert output(client, "\x1b[1mfore") == [{**update, "_meta": {key: {"terminal_id": "t", "data": "\x1b[1mfore"}}}]
    ended = {"terminal_id": "t", "exit_code": 0, "signal": None}
    assert change(client, exitStatus={"exitCode": 0}) == [{**update, "_meta": {"terminal_exit": ended}}]
    assert change(client, exitStatus={"exitCode": 0}) == []
    assert client.wait() == []
    assert client.losses() == []


def test_a_call_that_shows_a_terminal_later_starts_again_for_it() -> None:
    client = NarrowClient(output_key=KEYS[0])
    client.update("tool_call_update", toolCallId="c", title="Make", kind="execute", status="in_progress")
    [start] = client.update("tool_call_content_chunk", toolCallId="c", content=EMBED)
    assert start == {
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Make", "kind": "execute", "status": "in_progress",
        "content": [{"type": "terminal", "terminalId": "t"}], "_meta": {"terminal_info": {"terminal_id": "t"}},
    }  # fmt: skip


def test_each_of_two_terminals_in_one_call_is_announced() -> None:
    client = NarrowClient(output_key=KEYS[0])
    items = [EMBED, {"type": "agent_terminal", "terminalId": "u"}]
    starts = client.update("tool_call_update", toolCallId="c", content=items)
    assert [start["_meta"]["terminal_info"]["terminal_id"] for start in starts] == ["t", "u"]
    assert [len(start["content"]) for start in starts] == [1, 2]


def test_a_replaced_screen_is_cleared_first_and_a_longer_one_is_continued() -> None:
    client = client_showing(output_key=KEYS[0])
    output(client, "one")
    [update] = change(client, output={"data": base64_of("one two")})
    assert update["_meta"][KEYS[0]]["data"] == " two"
    [update] = change(client, output={"data": base64_of("three")})
    assert update["_meta"][KEYS[0]]["data"] == f"{CLEAR_SCREEN}three"


@pytest.mark.item("V2-24")
def test_split_characters_arrive_whole() -> None:
    client = client_showing(output_key=KEYS[0])
    data = "é".encode()
    assert output(client, data[:1]) == []
    [update] = output(client, data[1:])
    assert update["_meta"][KEYS[0]]["data"] == "é"


def test_a_terminal_that_nothing_shows_has_its_own_call_with_pieces() -> None:
    client = NarrowClient(output_key=KEYS[0])
    output(client, "one")
    change(client, exitStatus={"exitCode": 1})
    start, piece, end = client.wait()
    assert (start["toolCallId"], start["status"], start["title"]) == ("terminal:t", "in_progress", "terminal t")
    assert piece["_meta"][KEYS[0]]["data"] == "one"
    assert (end["status"], end["_meta"]["terminal_exit"]["exit_code"]) == ("failed", 1)


# --- the text itself ----------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=8), max_size=8))
def test_pieces_together_are_the_whole_text(pieces: list[bytes]) -> None:
    terminal = TerminalText()
    said = "".join(map(terminal.append, pieces))
    assert terminal.all_text() == said


@given(st.text(max_size=30), st.integers(1, 12))
def test_only_the_end_is_kept_and_no_character_is_cut(text: str, limit: int) -> None:
    data = text.encode("utf-8", "replace")
    terminal = TerminalText(limit)
    terminal.append(data)
    kept = terminal.plain_text(is_over=True)
    assert terminal.dropped == max(len(data) - limit, 0)
    assert kept.had_other_bytes == ("\ufffd" in terminal.all_text())
    assert text.endswith(terminal.all_text())


@given(st.text(st.characters(min_codepoint=0, max_codepoint=0xFF), max_size=40))
def test_no_control_character_is_left(text: str) -> None:
    terminal = TerminalText()
    terminal.append(text.encode())
    plain = terminal.plain_text(is_over=True).text
    assert not any((ord(letter) < 32 and letter not in "\n\t") or 127 <= ord(letter) < 160 for letter in plain)


def test_a_long_output_says_how_much_is_missing() -> None:
    terminal = TerminalText(4)
    terminal.append(b"123456")
    written = transcript(terminal.plain_text(is_over=True), terminal.dropped, TerminalExitStatus())
    assert written == "[2 bytes before this are not kept]\n```\n3456\n```\n[ended]"
