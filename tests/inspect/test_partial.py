"""Incomplete files: a missing header, a missing end, and files that are not recordings are reported."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.inspect.reader import RecordingReader
from dragoman.transport.recording.format import Header, end_line, gap_line, header_line
from tests.inspect.conversation import DRAGOMAN, TALK, TIMEOUT, lines, write

READERS = [["show"], ["tail"], ["stats"], ["validate"], ["export"], ["export", "--html"], ["replay", "--as", "agent"]]
END = end_line(20_000, "the agent exited with status 0", 0, len(TALK))


def write_file(path: Path, *parts: bytes) -> str:
    path.write_bytes(b"".join(parts))
    return str(path)


@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize("content", [b"", b"MIT License\n\nCopyright\n", b'{"name": "package"}\n'])
def test_every_action_refuses_a_file_that_is_not_a_recording(
    words: list[str], content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_file(tmp_path / "LICENSE", content)
    assert main(["inspect", words[0], path, *words[1:]]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"dragoman inspect: {path}: ")
    assert output.err.endswith("give a file that `dragoman inspect run` wrote, or one with one message per line\n")
    assert output.err.count("\n") == 1


def test_diff_refuses_two_files_that_are_not_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "diff", str(write(tmp_path / "r")), write_file(tmp_path / "none")]) == 1
    assert "none: empty; give a file" in capsys.readouterr().err


def test_a_recording_without_messages_is_shown_as_empty_and_fails_validation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path / "r", []))
    assert main(["inspect", "show", path]) == 0
    assert capsys.readouterr().err == f"dragoman inspect: {path}: no messages were recorded\n"
    assert main(["inspect", "validate", path]) == 1
    assert "no messages were recorded, so there is nothing to check" in capsys.readouterr().err
    assert main(["inspect", "replay", path, "--as", "client", "--", "true"]) == 1
    assert "no messages were recorded, so there is nothing to play" in capsys.readouterr().err


@pytest.mark.parametrize("header", [b"", b'{"dragoman":"recording","format":"x"}\n'])
def test_times_are_right_without_a_usable_header_and_a_problem_is_reported(
    header: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_file(tmp_path / "r", header, *lines()[1:], END)
    for action in ("show", "stats"):
        assert main(["inspect", action, path]) == 0
        output = capsys.readouterr()
        assert output.err.count("the header is missing") == 1
        assert "has no end" not in output.err
        assert ("✓ session/prompt #2 7 ms" if action == "show" else "12 lines in 11 ms") in output.out


def test_integer_times_of_another_recorder_are_not_used() -> None:
    reader = RecordingReader()
    (found,) = reader.read([b'{"t": 17, "direction": "client", "msg": {"jsonrpc": "2.0", "method": "x"}}\n'])
    assert found.t is None
    assert ["the unit of the times is unknown" in trouble.reason for trouble in reader.problems] == [True]


@pytest.mark.parametrize("action", ["show", "stats", "validate", "export"])
def test_a_recording_without_an_end_is_reported_as_incomplete(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_file(tmp_path / "r", *lines())
    assert main(["inspect", action, path]) == 0
    expected = f"dragoman inspect: {path} has no end: it was truncated, or is still being written\n"
    assert capsys.readouterr().err == expected


def test_strict_validation_requires_a_complete_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, cut = write(tmp_path / "whole"), write_file(tmp_path / "cut", *lines())
    lossy = write_file(tmp_path / "lossy", *lines(), gap_line(1, 5), END)
    found = [main(["inspect", "validate", "--strict", str(path)]) for path in (whole, cut, lossy)]
    assert found == [0, 3, 3]
    assert main(["inspect", "stats", "--json", cut]) == 0
    assert '"complete": false' in capsys.readouterr().out


def test_a_copy_keeps_the_end_and_the_gaps(tmp_path: Path) -> None:
    path = write_file(tmp_path / "r", *lines()[:5], gap_line(4500, 7), *lines()[5:], END)
    assert main(["inspect", "export", path, "--out", str(tmp_path / "copy")]) == 0
    reader = RecordingReader()
    assert len(list(reader.read((tmp_path / "copy").read_bytes().splitlines(keepends=True)))) == len(TALK)
    assert reader.ending == read(path).ending
    assert (reader.lost_bytes, reader.is_incomplete) == (7, False)


def read(path: str) -> RecordingReader:
    reader = RecordingReader()
    list(reader.read(Path(path).read_bytes().splitlines(keepends=True)))
    return reader


@pytest.fixture
def two(tmp_path: Path) -> str:
    """Two recordings in one file; the prompt in the first has no answer."""
    later = header_line(Header(command=["another"], start="2026-01-02T00:00:00Z", epoch=3_600_000_001))
    return write_file(tmp_path / "two", *lines()[:6], END, later, *lines()[1:], END)


def test_two_recordings_in_one_file_are_counted_together(two: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "stats", two]) == 0
    output = capsys.readouterr().out
    assert "17 lines in 15 ms from 2 recordings" in output
    assert "unanswered: session/prompt ×1" in output
    assert main(["inspect", "stats", two, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["recordings"], found["length_us"], found["complete"]) == (2, 15_000, True)


def test_two_recordings_in_one_file_are_shown_separately(two: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "show", two]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    lines = output.out.splitlines()
    assert lines[5] == "── another recording: another 2026-01-02T00:00:00Z ──"
    assert "1 unanswered: session/prompt #2 (line 6)" in output.out
    assert "still in use" not in output.out


def test_a_copy_of_two_recordings_is_two_recordings(two: str, tmp_path: Path) -> None:
    assert main(["inspect", "export", two, "--out", str(tmp_path / "copy")]) == 0
    before, after = read(two), read(str(tmp_path / "copy"))
    assert [header.command for header in after.headers] == [["agent"], ["another"]]
    assert (after.endings, after.line_count) == (before.endings, before.line_count)


def test_a_recording_after_a_truncated_one_is_reported() -> None:
    reader = RecordingReader()
    list(reader.read([*lines()[:4], *lines(), END]))
    assert [(trouble.line, "has no end" in trouble.reason) for trouble in reader.problems] == [(5, True)]
    assert not reader.is_incomplete


def test_tail_shows_the_last_lines_first_when_it_follows_and_waits_for_a_file(tmp_path: Path) -> None:
    path = tmp_path / "later"
    process = subprocess.Popen(
        [*DRAGOMAN, "inspect", "tail", "-f", "-n", "2", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert b"does not exist yet; waiting for it" in process.stderr.readline()
        write(tmp_path / "whole").rename(path)
        assert b"tool_call_update" in process.stdout.readline()
        assert "✓ session/prompt".encode() in process.stdout.readline()
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)


@pytest.mark.parametrize("number", ["-3", "x"])
def test_an_invalid_number_of_lines_is_reported_in_one_line(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["inspect", "tail", "-n", number, "r"])
    assert ended.value.code == 2
    output = capsys.readouterr().err
    assert f"'{number}' is not a number of lines; give 0 or more, as in -n 20" in output
    assert output.count("\n") == 1
