"""The short form of `make tree-run`: random reads and writes of three agents on one tree lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bridge.team.tree_run import TreeRun


@pytest.mark.item("BR-27", "004-71")
async def test_every_write_of_a_team_is_in_the_tree_or_was_refused_with_a_reason(tmp_path: Path) -> None:
    run = TreeRun(tmp_path, files=4, seed=1)
    await run.run(240)
    assert run.faults() == []
    figures = run.summary()
    assert sum(figures["operations"].values()) == 240
    assert figures["operations"]["append"] > 10
    assert figures["refused"].get("stale", 0) > 5
    assert figures["written"] > 50


async def test_without_coordination_the_same_run_loses_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the run can fail."""
    from dragoman.workspace.coordination import FileCoordinator

    monkeypatch.setattr(FileCoordinator, "check", lambda self, member, path, current: None)
    run = TreeRun(tmp_path, files=4, seed=1)
    await run.run(240)
    assert any("0 times, not refused" in fault for fault in run.faults())
