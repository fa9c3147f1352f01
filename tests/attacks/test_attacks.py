"""The short form of `make attack-run`; and that its recorders would see what must not happen."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.attacks import bad_tokens, command_lines, file_calls
from tests.attacks.page import PAGE, ROOT, named_tests

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and renameat2")


def test_no_command_line_runs_what_no_rule_allows(tmp_path: Path) -> None:
    for outcome in command_lines.attack(tmp_path, 5000, "short").values():
        assert outcome.escapes == []
        assert outcome.executed > 20


@pytest.mark.parametrize("name", named_tests())
def test_every_test_that_the_security_page_names_exists(name: str) -> None:
    path, _, function = name.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^(?:async )?def {function}\(", text, re.M)


def test_every_attack_of_the_security_page_names_a_test() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| attack |")[2]
    rows = [line for line in table.splitlines()[2:] if line.startswith("|")]
    assert len(rows) > 20
    assert [row for row in rows if "::test_" not in row] == []


def test_the_recorder_sees_what_a_line_runs(tmp_path: Path) -> None:
    recorder = command_lines.Recorder(tmp_path)
    for line in ("evil", "$EVIL", "safe; e''vil", "echo `evil`", "sh -c evil", "env evil", "eval evil", "e[v]il"):
        assert "evil" in recorder.run(line), line
    assert recorder.run("safe evil") == {"safe"}


def test_no_file_call_uses_what_was_not_approved(tmp_path: Path) -> None:
    outcome = file_calls.attack(tmp_path.resolve(), 1000)
    assert outcome.escapes == []
    assert outcome.results["done"] > 10
    assert outcome.swaps > 1000


async def test_no_bad_token_opens_a_route(tmp_path: Path) -> None:
    outcome = await bad_tokens.attack(tmp_path, "short")
    assert outcome.escapes == []
    assert outcome.requests > 1000
    assert outcome.statuses[401] > outcome.requests // 2
