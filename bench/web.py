"""What the web page costs in a real Chromium: weight, first paint, CPU while text streams, and a long session.

Takes our command and an empty folder; gives figures. Needs Chromium and playwright. Above is measure.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.setup import ROOT, environment

DEADLINE = 120.0  # seconds until something must be on the screen
RATE = 200  # chunks a second
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--enable-precise-memory-info")
PEERS = ROOT / "bench" / "peers"
SESSION = "11111111-2222-4333-8444-555555555555"


def weight() -> dict[str, float]:
    """Kilobytes of all files of the page, as they are sent."""
    files = (ROOT / "src" / "dragoman" / "web" / "assets").rglob("*.*")
    sizes = [min(len(data), len(gzip.compress(data, 9))) for data in (path.read_bytes() for path in files)]
    return {"weight_kb": sum(sizes) / 1000}


def paint(dragoman: str, count: int, folder: Path) -> dict[str, float]:
    """Milliseconds from the navigation to the first paint, without a cache."""
    times = []
    with served(dragoman, folder) as (url, token), pages() as browser:
        for _ in range(count):
            context = browser.new_context()
            page = context.new_page()
            page.goto(f"{url}/#token={token}")
            page.wait_for_selector(".app", timeout=DEADLINE * 1000)
            times.append(page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            context.close()
    return {"paint_ms": median(times)}


def stream(dragoman: str, count: int, folder: Path) -> dict[str, float]:
    """The share of a core that the page uses while so many chunks come at 200 a second, and its longest frame."""
    with served(dragoman, folder) as (url, token), pages() as browser:
        page = browser.new_context().new_page()
        page.goto(f"{url}/#token={token}")
        page.wait_for_selector(".app", timeout=DEADLINE * 1000)
        client = page.context.new_cdp_session(page)
        client.send("Performance.enable")
        before = _busy_seconds(client)
        share = page.evaluate(_script("web_stream"), [count, RATE])
        return {
            "core_share": (_busy_seconds(client) - before) / share["seconds"],
            "longest_frame_ms": share["longest"],
        }


def _script(name: str) -> str:
    """What is run in the page."""
    return (PEERS / f"{name}.js").read_text(encoding="utf-8")


def _busy_seconds(client: Any) -> float:
    """How long the main thread of the page has worked so far."""
    metrics = {each["name"]: each["value"] for each in client.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def long_session(python: str, dragoman: str, count: int, folder: Path) -> dict[str, float]:
    """Milliseconds until the end of a long session is on the screen, one frame while it scrolls, and its memory."""
    store = folder / "long.db"
    write = [python, str(PEERS / "long_session.py"), str(store), SESSION, str(count)]
    subprocess.run(write, check=True, timeout=DEADLINE, env=environment())
    with served(dragoman, folder, "--store", str(store)) as (url, token), pages() as browser:
        page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
        page.goto(f"{url}/#token={token}")
        page.wait_for_selector(".app", timeout=DEADLINE * 1000)
        opened = page.evaluate(OPEN, [SESSION, f"Message {count - 1}:"])
        frames = page.evaluate(_script("web_scroll"))
        memory = page.evaluate("() => performance.memory.usedJSHeapSize / 1e6")
    return {"open_ms": opened, "frame_ms": frames[len(frames) // 2], "memory_mb": memory}


OPEN = """async ([session, text]) => { const start = performance.now(); location.hash = `#/s/${session}`;
    while (!document.querySelector('.log')?.innerText.includes(text)) await new Promise(requestAnimationFrame);
    return performance.now() - start; }"""


@contextmanager
def pages() -> Iterator[Any]:
    """Yield a browser."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise OSError("there is no Chromium here")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield browser
        browser.close()


@contextmanager
def served(dragoman: str, folder: Path, *arguments: str) -> Iterator[tuple[str, str]]:
    """Yield the address of a host in an empty folder, and a token of its owner."""
    environ = {**environment(), "XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state")}
    user = environ.get("USER") or os.environ.get("LOGNAME") or "root"
    made = subprocess.run(
        [dragoman, "tokens", "create", user, "--role", "admin", *arguments],
        env=environ, capture_output=True, text=True, check=True, timeout=DEADLINE,
    )  # fmt: skip
    command = [dragoman, "serve", "--json", "--bind", "127.0.0.1:0", *arguments, "--", dragoman, "agent", "everything"]
    host = subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
    try:
        assert host.stdout is not None
        yield str(json.loads(host.stdout.readline())["url"]).removesuffix("/acp"), made.stdout.split()[-1]
    finally:
        host.terminate()
        host.wait(DEADLINE)
