"""The recorder: close waits for a slow disk that makes progress, and not for one that makes none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.transport.recording import recorder
from dragoman.transport.recording.format import TO_CLIENT
from dragoman.transport.recording.recorder import NotWritable, Recorder
from dragoman.transport.recording.tap import trace_to


def test_close_waits_for_a_slow_disk_that_makes_progress(tmp_path: Path) -> None:
    said: list[str] = []
    recording = Recorder(str(tmp_path / "r"), ["agent"], said.append)

    class Slow:
        """A writer thread that takes three times the close timeout and makes progress."""

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


def test_close_stops_waiting_for_a_stuck_disk_and_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
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


def test_an_empty_file_is_used_by_one_recording_only(tmp_path: Path) -> None:
    path = tmp_path / "made"
    path.touch(0o644)
    both = [Recorder(str(path), ["agent"], print) for _ in range(2)]
    assert [recording.path for recording in both] == [str(path), f"{path}-2"]
    for recording in both:
        recording.close("exit", 0)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_recording_that_cannot_start_says_what_to_try(tmp_path: Path) -> None:
    with pytest.raises(NotWritable, match="No such file or directory; choose another file, or create the folder"):
        Recorder(str(tmp_path / "no" / "r"), ["agent"], print)
