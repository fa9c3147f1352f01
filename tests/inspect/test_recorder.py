"""The writer of a recording: the end waits for a disk that goes on taking, and not for one that takes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.inspect import recorder
from dragoman.inspect.format import TO_CLIENT
from dragoman.inspect.recorder import NotWritable, Recorder
from dragoman.inspect.tap import trace_to


def test_a_slow_disk_is_waited_for_as_long_as_it_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    recording = Recorder(str(tmp_path / "r"), ["agent"], said.append)

    class Slow:
        """A writer that needs three times the patience, and gets on meanwhile."""

        joined = 0

        def is_alive(self) -> bool:
            return self.joined < 3

        def join(self, _: float) -> None:
            self.joined += 1
            recording._written_bytes += 1

    writer, slow = recording._thread, Slow()
    fake: Any = slow
    recording._thread = fake
    recording.close("exit", 0)
    writer.join()
    assert (slow.joined, said) == (3, [])


def test_a_disk_that_takes_nothing_is_given_up_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "CLOSE_TIMEOUT", 0.05)
    said: list[str] = []
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # reads nothing: what fits into a pipe is all there is
    recording = Recorder(str(path), ["agent"], said.append)
    recording.record(TO_CLIENT, b"x" * 1_000_000 + b"\n")
    recording.close("exit", 0)
    os.close(reader)
    recording._thread.join()
    assert said[0] == f"the recording {path} is incomplete: the disk was too slow"


def test_a_file_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "talk.ndjson"
    for number in range(3):
        with trace_to(str(path), ["agent"], said.append) as tap:
            tap.notify_sent(b'{"n":%d}' % number)
    found = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert sorted(found) == ["talk-2.ndjson", "talk-3.ndjson", "talk.ndjson"]
    assert b'{"n":0}' in found["talk.ndjson"]
    assert b'{"n":2}' in found["talk-3.ndjson"]
    assert said == [f"{path} exists; recording to {tmp_path}/talk-{number}.ndjson" for number in (2, 3)]


def test_an_empty_file_that_was_made_for_it_is_used_by_one_recording_alone(tmp_path: Path) -> None:
    path = tmp_path / "made"
    path.touch(0o644)
    both = [Recorder(str(path), ["agent"], print) for _ in range(2)]
    assert [recording.path for recording in both] == [str(path), f"{path}-2"]
    for recording in both:
        recording.close("exit", 0)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_recording_that_cannot_be_begun_says_what_to_try(tmp_path: Path) -> None:
    with pytest.raises(NotWritable, match="No such file or directory; choose another file, or create the folder"):
        Recorder(str(tmp_path / "no" / "r"), ["agent"], print)
