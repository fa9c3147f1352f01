"""The writer of a recording: the end waits for a disk that goes on taking, and not for one that takes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.inspect import recorder
from dragoman.inspect.recorder import Recorder
from dragoman.inspect.recording import TO_CLIENT


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
            recording._went += 1

    writer, slow = recording._thread, Slow()
    fake: Any = slow
    recording._thread = fake
    recording.close("exit", 0)
    writer.join()
    assert (slow.joined, said) == (3, [])


def test_a_disk_that_takes_nothing_is_given_up_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PATIENCE", 0.05)
    said: list[str] = []
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # reads nothing: what fits into a pipe is all there is
    recording = Recorder(str(path), ["agent"], said.append)
    recording.take(TO_CLIENT, b"x" * 1_000_000 + b"\n")
    recording.close("exit", 0)
    os.close(reader)
    recording._thread.join()
    assert said[0] == f"the recording {path} is not complete: its disk took too long"
