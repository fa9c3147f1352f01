"""Agent, client and writer are killed at random moments, disks are full and writes fail: nothing acknowledged is lost.

The short form of `make kill-run`; and that its comparison would see what must not happen.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk
from dragoman.store.contract import Draft, EntryKind
from dragoman.store.sqlite import SqliteStore
from tests.store.kill_run import full_disk
from tests.store.kill_run.comparison import Findings, compare
from tests.store.kill_run.paths import AGENT_FILE, CLIENT_FILE, FILES
from tests.store.kill_run.power_cut import power_run
from tests.store.kill_run.records import Records
from tests.store.kill_run.run import kill_run, table

KILLS = 12

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and pidfd")


def test_after_a_kill_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    findings = asyncio.run(kill_run(str(tmp_path), KILLS, "short"))
    assert findings.faults == [], table({"kill -9": findings})
    assert (findings.lost, findings.doubled, findings.disordered) == (0, 0, 0)
    assert sum(findings.killed.values()) == KILLS
    assert sum(findings.in_turn.values()) > KILLS // 2
    assert findings.acknowledged > 500
    assert findings.loaded == findings.sessions > 0


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", *full_disk.OWN_DISKS, "mount", "-t", "tmpfs", "x", "/mnt"]).returncode == 0


@pytest.mark.parametrize("kind", full_disk.KINDS)
def test_on_a_full_disk_nothing_acknowledged_is_lost(kind: str) -> None:
    if kind == full_disk.FULL and not can_mount():
        pytest.skip("a disk of one's own needs a mount namespace")
    findings = full_disk.apart(kind, 2, "short")
    assert findings.faults == [], table({kind: findings})
    assert findings.refused
    assert findings.loaded == findings.sessions > 0


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("fails", [0, 100])
def test_after_a_power_cut_nothing_acknowledged_is_lost(tmp_path: Path, fails: int) -> None:
    outcome = power_run(tmp_path.resolve(), 3, "short", fails=fails)
    assert outcome.lost == []
    assert outcome.acknowledged > 10
    assert bool(outcome.refused) == bool(fails)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_disk_that_does_not_sync_loses_what_was_acknowledged(tmp_path: Path) -> None:
    assert power_run(tmp_path.resolve(), 1, "short", lies=True).lost


# --- the comparison can fail ----------------------------------------------------------------------------------

TURN = "c1-1.0.0"

# What is done to the texts of both logs, and to the lines of the recorder.
Change = Callable[[dict[str, list[str]], list[list[str]]], object]


def entries(texts: list[str], *, ended: bool = True) -> list[Draft]:
    said = [
        (EntryKind.OPENED, {"sessionId": "s", "agent": {"name": "streamer"}}),
        (EntryKind.PROMPT, {"prompt": [{"type": "text", "text": TURN}]}),
        *((EntryKind.UPDATE, AgentMessageChunk(content=TextContent(text=f"{text} "))) for text in texts),
        *([(EntryKind.TURN_ENDED, {"stopReason": "end_turn"})] if ended else []),
    ]
    return [
        Draft(kind=kind, actor="agent", time="2026-01-01T00:00:00Z", body=body, turn=None if kind == "opened" else "t")
        for kind, body in said
    ]


def compared(folder: Path, change: Change, ended: bool = True) -> Findings:
    """What a comparison says of a turn of three pieces, after the logs or the records were changed."""
    texts = {file: [f"{TURN}:{number}" for number in range(3)] for file in FILES}
    lines = [["began", TURN, "s"], *(["given", "s", f"{TURN}:{number}"] for number in range(3))]
    if ended:
        lines.append(["answered", "s", TURN, "end_turn"])
    change(texts, lines)

    async def main() -> Findings:
        for file in FILES:
            store = await SqliteStore.open(str(folder / file))
            await store.append("s", entries(texts[file], ended=ended))
            await store.close()
        records = Records()
        for line in [*lines, ["loaded", "s", *texts[AGENT_FILE]], ["killed", "client", "c1"]]:
            records.note(line)
        return await compare(str(folder), records)

    return asyncio.run(main())


def test_a_correct_run_has_no_faults(tmp_path: Path) -> None:
    findings = compared(tmp_path, lambda texts, lines: None)
    assert findings.faults == []
    assert (findings.acknowledged, findings.loaded, findings.in_turn["client"]) == (4, 1, 0)


def test_only_a_turn_with_a_kill_may_be_without_an_end(tmp_path: Path) -> None:
    findings = compared(tmp_path, lambda texts, lines: None, ended=False)
    assert findings.faults == []
    assert findings.in_turn["client"] == findings.killed["client"] == 1


WRONG: dict[str, tuple[str, Change]] = {
    "the client's log lacks the last piece": ("lost", lambda texts, lines: texts[CLIENT_FILE].pop()),
    "the client's log lacks one in the middle": ("lost", lambda texts, lines: texts[CLIENT_FILE].pop(1)),
    "the client's log has one twice": ("disordered", lambda texts, lines: texts[CLIENT_FILE].append(f"{TURN}:2")),
    "the client's log is in another order": ("disordered", lambda texts, lines: texts[CLIENT_FILE].reverse()),
    "the agent's log lacks what it said": ("lost", lambda texts, lines: texts[AGENT_FILE].pop()),
    "the client was given something twice": ("doubled", lambda texts, lines: lines.insert(3, lines[3])),
    "the client was given another order": ("disordered", lambda texts, lines: lines.insert(1, lines.pop(2))),
    "the client was answered and not given all": ("lost", lambda texts, lines: lines.pop(3)),
    "a turn was answered that is in no log": ("lost", lambda texts, lines: lines.append(["answered", "s", "x", "y"])),
    "a prompt was taken that is in no log": ("lost", lambda texts, lines: lines.append(["began", "c1-1.0.1", "s"])),
    "a number was told that is not there": ("lost", lambda texts, lines: lines.append(["kept", "s", "99", "update"])),
    "a number is another thing": ("lost", lambda texts, lines: lines.append(["kept", "s", "1", "update"])),
    "the user was asked what is in no log": ("lost", lambda texts, lines: lines.append(["asked", f"{TURN}?1"])),
    "the agent heard an answer that is in no log": ("lost", lambda texts, lines: lines.append(["heard", f"{TURN}?1"])),
    "the writer was told what is not there": (
        "lost",
        lambda texts, lines: lines.append(["wrote", CLIENT_FILE, "w", "1", "x"]),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_comparison_detects(what: str, tmp_path: Path) -> None:
    count, change = WRONG[what]
    findings = compared(tmp_path, change)
    assert getattr(findings, count) > 0, findings
    assert findings.faults
