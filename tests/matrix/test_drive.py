"""The driver of the matrix: a run's entries and frames read, a tap between two ends, and what stays behind found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interop.cells import Failed, can_load, can_resume, check_end, is_refusal
from interop.drive import MARK, TAP, Outcome, frames, leftovers, marked
from tests.matrix import outcomes

TIMEOUT = 90.0


def test_text_stop_reason_and_permission_requests_are_read_from_entries() -> None:
    outcome = Outcome(code=0, entries=outcomes.ENTRIES)
    assert outcome.chunks == ["one ", "two"]
    assert outcome.stop_reason == "end_turn"
    assert len(outcome.bodies("asked")) == 1
    check_end(outcome)


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(code=None, entries=outcomes.ENTRIES),
        Outcome(code=1, entries=outcomes.ENTRIES),
        Outcome(code=0, entries=[]),
        Outcome(code=0, entries=outcomes.ENTRIES[:-1]),
        Outcome(code=0, entries=[*outcomes.ENTRIES[:1], *outcomes.ENTRIES[2:]]),
        Outcome(code=0, entries=[{**outcomes.ENTRIES[0], "session": "t"}, *outcomes.ENTRIES[1:]]),
        Outcome(code=0, entries=outcomes.ENTRIES, left=["17 node"]),
    ],
    ids=["killed", "exit code", "no end", "no result", "an entry lost", "another session", "left behind"],
)
def test_a_failed_run_is_recognized(outcome: Outcome) -> None:
    with pytest.raises(Failed):
        check_end(outcome)


@pytest.mark.parametrize(
    ("decision", "is_no"),
    [
        ({"outcome": "selected", "optionId": "no"}, True),
        ({"outcome": "selected", "optionId": "yes"}, False),
        ({"outcome": "selected", "optionId": "made up"}, False),
        ({"outcome": "cancelled"}, False),  # there was a way to say no
    ],
    ids=["no", "yes", "not offered", "cancelled"],
)
def test_a_refusal_is_one_of_the_offered_options(decision: dict[str, str], is_no: bool) -> None:
    outcome = Outcome(entries=outcomes.ENTRIES)
    assert is_refusal(outcome, {"toolCallId": "call", "outcome": decision}) is is_no


def test_the_error_text_of_a_run_is_reported() -> None:
    failed = {"session": None, "kind": "result", "body": {"exitCode": 7, "text": "", "error": {"message": "it died"}}}
    assert Outcome(code=7, entries=[failed], stderr="chatter of the agent\n").error_text == "it died"
    assert Outcome(code=2, stderr="one\nsay what to ask\n").error_text == "say what to ask"


def test_loading_and_resuming_are_advertised_separately() -> None:
    assert can_load({"agentCapabilities": {"loadSession": True}})
    assert not can_load({"agentCapabilities": {"loadSession": False, "sessionCapabilities": {"resume": {}}}})
    assert not can_load({})
    assert can_resume({"agentCapabilities": {"sessionCapabilities": {"resume": {}}}})
    assert not can_resume({"agentCapabilities": {"loadSession": True, "sessionCapabilities": {"resume": None}}})
    assert not can_resume({})


def test_the_tap_hides_a_capability_from_the_client_and_not_from_the_log(tmp_path: Path) -> None:
    wire = tmp_path / "wire.ndjson"
    offered = {"loadSession": True, "sessionCapabilities": {"resume": {}, "list": {}}}
    lines = [{"id": 1, "result": {"agentCapabilities": offered}}, {"method": "x", "params": {"sessionCapabilities": 1}}]
    agent = [sys.executable, "-c", f"print({json.dumps(lines[0])!r}); print({json.dumps(lines[1])!r}, end='')"]
    ended = subprocess.run(
        [sys.executable, str(TAP), str(wire), "resume", "--", *agent],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    first, last = map(json.loads, ended.stdout.splitlines())
    assert first["result"]["agentCapabilities"] == {"loadSession": True, "sessionCapabilities": {"list": {}}}
    assert last == lines[1]
    assert [frame for _, frame in frames(wire)] == lines


def test_the_tap_passes_everything_on_and_records_each_frame(tmp_path: Path) -> None:
    wire = tmp_path / "wire.ndjson"
    echo = [sys.executable, "-c", "import sys; [print(line, end='', flush=True) for line in sys.stdin]; sys.exit(3)"]
    call = '{"jsonrpc":"2.0","id":1,"method":"initialize"}\n'
    answered = '{"jsonrpc":"2.0","id":1,"result":{"a":1}}\n'
    ended = subprocess.run(
        [sys.executable, str(TAP), str(wire), "--", *echo],
        input=f"{call}noise\n{answered}",
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert ended.returncode == 3
    assert ended.stdout == f"{call}noise\n{answered}"
    outcome = Outcome(frames=frames(wire))
    assert len(outcome.frames) == 4
    assert outcome.result("initialize") == {"a": 1}
    assert len(outcome.requests("initialize")) == 2
    assert outcome.result("session/load") is None
    assert [json.loads(line)["dir"] for line in wire.read_text().splitlines()].count("note") == 2


def test_a_remaining_process_is_found_named_and_ended() -> None:
    mark = f"{os.getpid()}-test"
    stays = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, MARK: mark})
    try:
        assert list(marked(mark)) == [stays.pid]
        (shown,) = leftovers(mark, patience=0.1)
        assert shown.startswith(f"{stays.pid} ")
        assert stays.wait(TIMEOUT) == -9
        assert leftovers(mark) == []
    finally:
        stays.kill()
        stays.communicate()
