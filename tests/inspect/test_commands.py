"""The `dragoman inspect` actions that read a recording, as text and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from dragoman.cli.inspect import ACTIONS
from dragoman.cli.main import main
from dragoman.transport.recording.format import Header, end_line, frame_line, header_line
from tests.inspect.conversation import DRAGOMAN, TALK, TIMEOUT, answer, chunk, inspect, lines, news, write


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    return write(tmp_path / "talk.ndjson")


def inspect_output(*words: str | Path) -> str:
    done = inspect(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_the_timeline_pairs_answers_and_merges_chunks(talk: Path) -> None:
    text = inspect_output("show", talk)
    assert "✓ session/prompt #2 7 ms  end_turn" in text
    assert "agent_message_chunk ×2  Hello" in text
    assert text.count("┆") == 4


def test_the_tree_has_turns_and_tool_calls(talk: Path) -> None:
    text = inspect_output("show", talk, "--tree")
    assert "turn 1  7 ms  end_turn  s1  “hello”" in text
    assert "├ Read  read  completed  3 ms" in text


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        (["--method", "fs/"], [10, 11]),
        (["--direction", "c2a"], [2, 4, 6, 11]),
        (["--slow", "5"], [13]),
        (["--grep", "HELLO"], [6]),
        (["--session", "s1", "--method", "prompt"], [6, 13]),
        (["--faults"], []),
    ],
)
def test_filters_select_messages(
    filter: list[str], found: list[int], talk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", "show", str(talk), "--json", *filter]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["line"] for row in rows] == found


def test_control_characters_in_messages_are_escaped(tmp_path: Path) -> None:
    path = write(tmp_path / "r", [*TALK[:5], ("a2c", chunk("\x1b]0;owned\x07 \u202e")), ("a2c", b"\x1b[2J")])
    looks: list[list[str]] = [["show"], ["show", "--full"], ["validate"], ["stats"]]
    for words in looks:
        out = inspect(*words, path).stdout
        assert b"\x1b" not in out
        assert "\u202e" not in out.decode()


def test_stats_are_printed_as_text_and_as_json(talk: Path) -> None:
    assert "1 turns: end_turn ×1" in inspect_output("stats", talk)
    figures = json.loads(inspect_output("stats", talk, "--json"))
    assert figures["frames"] == {"c2a": 4, "a2c": 8}
    assert figures["turns"]["count"] == 1


def test_validate_reports_the_line_and_exits_with_3(tmp_path: Path, talk: Path) -> None:
    assert inspect("validate", talk).returncode == 0
    broken = write(tmp_path / "b", [*TALK[:5], ("a2c", news({"sessionUpdate": "tool_call"})), ("a2c", answer(2, {}))])
    done = inspect("validate", broken)
    assert done.returncode == 3
    assert b"line 7: a2c session/update tool_call" in done.stdout
    assert b"line 8: a2c session/prompt" in done.stdout


def test_a_truncated_recording_is_shown_with_the_line_and_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(b"".join(lines())[:-30])
    for action in ("show", "stats", "validate"):
        done = inspect(action, path)
        assert b"line 13: the recording is cut" in done.stderr
        assert done.stdout


def test_diff_compares_content_and_ignores_ids_times_and_chunk_limits(tmp_path: Path, talk: Path) -> None:
    text = b"".join(lines(step=77)).replace(b"s1", b"other").replace(b'"text": "Hel"', b'"text": "He"')
    same = tmp_path / "same"
    same.write_bytes(text.replace(b'"text": "lo "', b'"text": "llo "').replace(b"t1", b"t9"))
    assert inspect("diff", talk, same).returncode == 0
    other = write(tmp_path / "other", [*TALK[:8], *TALK[10:11], ("a2c", answer(2, {"stopReason": "refusal"}))])
    done = inspect("diff", talk, other)
    assert done.returncode == 3
    assert [line.split("  (")[0] for line in done.stdout.decode().splitlines()] == [
        "- a2c request fs/read_text_file",
        "- c2a answer fs/read_text_file",
        "~ a2c answer session/prompt",
        '    result.stopReason: "refusal" instead of "end_turn"',
    ]


def test_tail_follows_a_growing_file(tmp_path: Path) -> None:
    path = tmp_path / "growing"
    whole = lines()
    path.write_bytes(b"".join(whole[:2]))
    command = [*DRAGOMAN, "inspect", "tail", "-f", str(path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    try:
        assert b"initialize #0" in process.stdout.readline()
        with path.open("ab") as file:
            file.write(whole[2][:10])
            file.flush()
            file.write(whole[2][10:])
        assert "✓ initialize" in process.stdout.readline().decode()
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_has_examples_and_reports_errors_in_one_line(action: str) -> None:
    assert b"example" in inspect(action, "--help").stdout
    wrong = inspect(action, "--no-such-option")
    assert wrong.returncode == 2
    assert wrong.stderr.count(b"\n") == 1


def test_a_missing_file_is_reported_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("show", "stats", "validate", "export"):
        for path in (tmp_path / "gone", tmp_path):
            assert main(["inspect", action, str(path)]) == 1
            assert capsys.readouterr().err.count("\n") == 1


def test_a_reader_that_stops_early_does_not_make_a_recording_look_cut(tmp_path: Path) -> None:
    path = tmp_path / "talk.ndjson"
    message = b'{"jsonrpc":"2.0","method":"_note","params":{}}'
    notes = [frame_line(n, "a2c", message) for n in range(20_000)]  # more than a pipe holds
    path.write_bytes(b"".join([header_line(Header(epoch=1)), *notes, end_line(20_000, "ended", 0, 20_000)]))
    process = subprocess.Popen(
        [*DRAGOMAN, "inspect", "show", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process, process.stderr:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(TIMEOUT) == 141
