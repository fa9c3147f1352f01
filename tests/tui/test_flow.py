"""The transcript as rows: hostile text, long texts, many messages, diffs, search and marks."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.ui.ansi import ansi_lines
from dragoman.cli.ui.diff import compare_texts, diff_rows
from dragoman.cli.ui.highlight import CodeStyler
from dragoman.cli.ui.rows import Row, text_width
from dragoman.cli.ui.terminal import QUESTION_BAR, StyledLine
from dragoman.schema import update as updates
from dragoman.schema.content import TextContent
from dragoman.schema.toolcall import Diff, ToolCallBlock
from dragoman.tui.flow.block import RenderOptions
from dragoman.tui.flow.flow import Flow
from dragoman.tui.flow.view import FlowView, Position
from dragoman.tui.painter import cells_of
from dragoman.tui.tab.question import Question

HOSTILE = (
    "\x1b[2J\x1b[H\x1b]0;title\x07", "\x9b31mred", "a\u202eb\u2066c\u2069", "zero\u200bwidth\ufeff\u2060", "\r over",
    f"{QUESTION_BAR} The agent asks for permission:", "┃ y once", "▐ n", "a" + "\u0301" * 500, "\x1b_Ga=T;AAAA\x1b\\",
    "\x1bPq#0;2;0;0;0~\x1b\\", "<script>alert(1)</script>", "[label](https://a.example)", "\ud800", "\x00\x07\x08\x7f",
    "|a|b|\n|-|-|\n|\x1b[31mx|y|", "```\n\x1b[31m\n```", "# \u202ehead", "\U000e0041tag", "\x1b]8;;https://a.example\x07x",
)  # fmt: skip


def chunk(text: str, message_id: str | None = None) -> updates.AgentMessageChunk:
    return updates.AgentMessageChunk(content=TextContent(text=text), message_id=message_id)


def rows_of(flow: Flow, width: int = 80) -> list[Row]:
    return [row for block in flow.blocks for row in block.rows(RenderOptions(width))]


def call(status: str, *content: object, title: str = "Edit a.txt", kind: str = "edit") -> updates.ToolCallStart:
    return updates.ToolCallStart(tool_call_id="c", title=title, kind=kind, status=status, content=list(content))  # type: ignore[arg-type]


def assert_harmless(rows: list[Row], width: int) -> None:
    for row in rows:
        text = row.text
        assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in text), repr(text)
        assert not set(text) & set("\u200b\u202e\u2066\u2069\ufeff\u2060"), repr(text)
        assert QUESTION_BAR not in text
        assert "┃" not in text
        assert "▐" not in text
        assert text_width(text) <= width
        assert all(len(cell.char) <= 8 for cell in cells_of(row))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text_everywhere(text: str) -> None:
    flow = Flow("/work")
    flow.add_prompt([TextContent(text=text)], text)
    flow.apply(chunk(text))
    flow.apply(updates.AgentThoughtChunk(content=TextContent(text=text)))
    flow.apply(call("completed", Diff(path=text, old_text=text, new_text=text + "x"), title=text))
    flow.apply(updates.ToolCallProgress(tool_call_id="c", raw_input={"a": text}))
    flow.apply(call("failed", ToolCallBlock(content=TextContent(text=text)), title=text, kind=text))
    flow.add_note(text)
    flow.end_turn()
    for block in flow.blocks:
        block.is_open = True
    assert_harmless(rows_of(flow), 80)


@given(st.text(st.characters(codec=None), max_size=200), st.integers(20, 90))
def test_any_text_is_harmless(text: str, width: int) -> None:
    flow = Flow("/work")
    flow.apply(chunk(text[: len(text) // 2]))
    rows_of(flow, width)
    flow.apply(chunk(text[len(text) // 2 :]))
    flow.end_turn()
    assert_harmless(rows_of(flow, width), max(width, 20))


@given(st.text(max_size=100))
def test_any_output_of_a_command_is_harmless(text: str) -> None:
    for line in ansi_lines(f"\x1b[31m{text}\x1b[0m\n{text}"):
        for piece, style in line:
            assert not any(unicodedata.category(each) == "Cc" and each != "\t" for each in piece)
            assert "\x1b" not in style


def test_a_line_of_10_mb_is_cut_with_a_way_to_see_more() -> None:
    flow = Flow("/work")
    for _ in range(100):
        flow.apply(chunk("x" * 100_000))
    flow.end_turn()
    rows = rows_of(flow)
    assert len(rows) < 100
    assert "9,996,000 more characters" in "".join(row.text for row in rows)
    flow.blocks[0].is_open = True
    assert "o shows more" in "".join(row.text for row in rows_of(flow)[-3:])
    assert len(flow.blocks[0].content.copy_text()) == 10_000_000


@pytest.mark.item("FA-27")
def test_one_more_message_at_10_000_costs_what_it_costs_at_100() -> None:
    def cost(count: int) -> float:
        flow = Flow("/work")
        for number in range(count):
            flow.apply(chunk(f"message **{number}** with some words\n\n- and a list\n" * 4, f"m{number}"))
        view = FlowView(flow)
        view.height = 40
        view.visible()
        started = os.times()
        for number in range(200):
            flow.apply(chunk("one more, with *words*\n" * 4, f"n{number}"))
            for row in view.visible():
                cells_of(row.row)
        ended = os.times()
        return ended.user + ended.system - started.user - started.system

    few, many = min(cost(100), cost(100)), min(cost(10_000), cost(10_000))
    assert many <= 2 * few + 0.05


def test_a_million_updates_are_collected_quickly_and_drawn_once() -> None:
    flow = Flow("/work")
    started = os.times()
    update = chunk("word ")
    for _ in range(1_000_000):
        flow.apply(update)
    assert os.times().user - started.user < 20
    view = FlowView(flow)
    assert len(view.visible()) == 20
    assert len(flow.blocks) == 1


def test_the_words_that_differ_are_marked_side_by_side() -> None:
    diff = compare_texts("same\nreturn old_value + 1\nend\n", "same\nreturn new_value + 1\nmore\nend\n")
    wide = diff_rows(diff, 100)
    changed = next(row for row in wide if "old_value" in row.text)
    assert "new_value" in changed.text
    assert ("old_value", "removed-word") in changed.pieces
    assert ("new_value", "added-word") in changed.pieces
    assert (diff.added, diff.removed) == (2, 1)
    assert {text_width(row.text) for row in wide} == {100}
    narrow = diff_rows(diff, 60)
    assert any(row.text.startswith("2   - return old") for row in narrow)


@given(
    st.lists(st.sampled_from(["a", "b b", "c = 1", "c = 2", ""])), st.lists(st.sampled_from(["a", "b c", "c = 2", ""]))
)
def test_a_diff_has_every_changed_line_once(old: list[str], new: list[str]) -> None:
    diff = compare_texts("\n".join([*old, ""]), "\n".join([*new, ""]))
    removed = [line.old.number for line in diff.lines if line.old and line.is_changed]
    added = [line.new.number for line in diff.lines if line.new and line.is_changed]
    assert removed == sorted(set(removed))
    assert added == sorted(set(added))
    assert len(old) - len(removed) == len(new) - len(added)


def test_code_has_colors_across_lines() -> None:
    styler = CodeStyler("python")
    assert ("def", "code keyword") in styler.pieces("def f():")
    assert styler.pieces('    """a text')[-1] == ('"""a text', "code string")
    assert styler.pieces("def this is text")[0] == ("def this is text", "code string")
    assert CodeStyler("no-such-language").pieces("x = 1") == [("x = 1", "code")]


def test_scrolling_follows_the_end_and_stays_where_the_user_is() -> None:
    flow = Flow("/work")
    for number in range(50):
        flow.apply(chunk(f"message {number}", f"m{number}"))
    flow.end_turn()
    view = FlowView(flow)
    assert view.visible()[-1].row.text == "message 49"
    view.scroll(-30)
    before = [row.row.text for row in view.visible()]
    flow.apply(chunk("new", "n"))
    flow.end_turn()
    assert [row.row.text for row in view.visible()] == before
    view.scroll(1000)
    assert view.follows
    assert view.visible()[-1].row.text == "new"
    assert view.find("message 7")
    assert "message 7" in [row.row.text for row in view.visible()]
    assert view.marked_text(Position(7, 0, 0), Position(8, 0, 6)) == "message 7\n\nmessage"


async def test_blanks_hide_nothing_in_a_question_or_on_a_card() -> None:
    command = f"ls{' ' * 300}; rm -rf /"
    rows = Question([StyledLine(command, "bold")], []).rows(60, 10, is_focused=True)
    assert "ls … 300 blanks … ; rm -rf /" in rows[0].text
    flow = Flow("/work")
    flow.apply(call("pending", title=command, kind="execute"))
    assert "ls ; rm -rf /" in rows_of(flow)[0].text
