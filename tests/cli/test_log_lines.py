"""The commands that run beside an editor: what a peer says is one line on stderr, whatever it contains."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dragoman.cli.commands import attach
from dragoman.cli.inspect import run as inspect_run


@pytest.mark.parametrize("report", [attach._report, inspect_run._report])
def test_a_peer_cannot_add_lines_to_stderr(report: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    report("the host closed: bye\ndragoman attach: connected\r\n\x1b[2Jforged")
    (line,) = capsys.readouterr().err.splitlines()
    assert "bye␊dragoman attach: connected" in line
    assert "\x1b" not in line
