"""A host says in its log that its store fails, also without --verbose."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.cli.process import TIMEOUT
from tests.cli.serve_process import Served


def _readiness(served: Served) -> int:
    try:
        with urllib.request.urlopen(f"{served.url}/readyz", timeout=TIMEOUT) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def _await_readiness(served: Served, status: int) -> None:
    end = time.monotonic() + TIMEOUT
    while _readiness(served) != status:
        assert time.monotonic() < end, f"/readyz did not become {status}"
        time.sleep(0.2)


def test_a_store_that_fails_and_works_again_is_in_the_log(tmp_path: Path) -> None:
    store, elsewhere = tmp_path / "a.db", tmp_path / "elsewhere"
    served = Served(tmp_path, "--bind", "127.0.0.1:0", "--store", str(store))
    _await_readiness(served, 200)
    store.rename(elsewhere)
    _await_readiness(served, 503)
    elsewhere.rename(store)
    _await_readiness(served, 200)
    assert served.end() == 0
    log = served.process.communicate()[1]
    assert f"warning: sessions cannot be stored: {store} was moved" in log
    assert "warning: sessions can be stored again" in log
