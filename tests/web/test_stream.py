"""A minute of a fast stream: what the page works for it, whatever else this machine does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.tui import STREAMING_AGENT
from tests.web.browser import MakePerson, WebHost, needs_browser, only_whole, rpc_session

pytestmark = [needs_browser, only_whole]

# The agent sends 200 chunks in each of them.
SECONDS = 60


def longest_task(trace: Path) -> float:
    """Return the CPU milliseconds of the longest task in the main threads of pages."""
    events = json.loads(trace.read_text())["traceEvents"]
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [event.get("tdur", 0) for event in events if (event.get("pid"), event.get("tid")) in mains]
    return float(max(tasks)) / 1000


def test_two_hundred_chunks_a_second_leave_time_for_everything_else(
    tmp_path: Path, browser: Any, person: MakePerson
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(STREAMING_AGENT)
    host = WebHost(tmp_path, agent=(sys.executable, str(agent)))
    try:
        ann = person(host.token("ann", "admin"), at=host)
        rpc_session(ann)
        browser.start_tracing(page=ann.page, path=tmp_path / "trace.json", categories=["toplevel"])
        worked = ann.measure_work()
        ann.say(str(SECONDS))
        ann.page.wait_for_selector("button.stop", state="visible")
        is_over = "() => document.querySelector('button.stop').hidden"
        ann.page.wait_for_function(is_over, polling=1000, timeout=10 * SECONDS * 1000)
        assert worked() / SECONDS < 0.25
        browser.stop_tracing()
        assert longest_task(tmp_path / "trace.json") < 50
        ann.see(f"word{SECONDS * 200 - 1} ")
    finally:
        host.end()
