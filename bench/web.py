"""What the web page costs in a real Chromium: weight, first paint, CPU while text streams, and a long session.

Takes our command and an empty folder; gives figures. Needs Chromium and playwright. Above is measure.
"""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from bench.setup import ROOT, environment
from bench.tui import STREAMING_AGENT

DEADLINE = 120.0  # seconds until something must be on the screen
END_TIMEOUT = 10.0  # seconds for a server to end by itself
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic")
PEERS = ROOT / "bench" / "peers"
SESSION = "11111111-2222-4333-8444-555555555555"
FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def weight() -> dict[str, float]:
    """Kilobytes of all files of the page, as they are sent."""
    files = (ROOT / "src" / "dragoman" / "web" / "assets").rglob("*.*")
    sizes = [min(len(data), len(gzip.compress(data, 9))) for data in (path.read_bytes() for path in files)]
    return {"weight_kb": sum(sizes) / 1000}


def paint(dragoman: str, opencode: str, count: int, folder: Path) -> dict[str, float]:
    """Milliseconds from the navigation to the first paint, without a cache: our page and opencode's in turns.

    Ours is signed in, because opencode's asks nobody to. The first pair is not counted.
    """
    times: dict[str, list[float]] = {"ours": [], "opencode": []}
    with served(dragoman, folder) as (url, token), opencode_page(opencode, folder) as theirs, pages() as browser:
        page = signed_in(browser, url, token)
        state = page.context.storage_state()
        page.context.close()
        for _ in range(count + 1):
            for name, address in (("ours", f"{url}/"), ("opencode", theirs)):
                context = browser.new_context(storage_state=state)
                page = context.new_page()
                page.goto(address)
                times[name].append(page.wait_for_function(FIRST_PAINT, timeout=DEADLINE * 1000).json_value())
                context.close()
    ours, others = (median(times[name][1:]) for name in times)
    return {"paint_ms": ours, "opencode_ms": others, "ratio": ours / others}


def stream(dragoman: str, seconds: int, folder: Path) -> dict[str, float]:
    """Percent of a core that the page uses while an agent sends 200 chunks a second, and its longest frame."""
    (folder / "agent.py").write_text(STREAMING_AGENT)
    agent = (sys.executable, str(folder / "agent.py"))
    with served(dragoman, folder, "--root", str(folder), agent=agent) as (url, token), pages() as browser:
        page = signed_in(browser, url, token)
        page.click("button[aria-label='New session']")
        page.fill("#new-folder", str(folder))
        page.click("dialog button[type=submit]")
        page.fill("#composer", str(seconds))
        page.evaluate(_script("web_frames"))
        before = _renderer_seconds(browser)
        page.click("button.send")
        page.wait_for_selector("button.stop", state="visible")
        ended = "() => document.querySelector('button.stop').hidden"
        page.wait_for_function(ended, polling=500, timeout=(seconds + DEADLINE) * 1000)
        used = _renderer_seconds(browser) - before
        # A busy machine slows the agent down; what counts is the work for one second of the stream.
        return {"core_percent": used / seconds * 100, "longest_frame_ms": page.evaluate("() => window.longestFrame")}


def long_session(python: str, dragoman: str, count: int, folder: Path) -> dict[str, float]:
    """Milliseconds until the end of a long session is on the screen, one frame while it scrolls, and the memory."""
    store = folder / "long.db"
    write = [python, str(PEERS / "long_session.py"), str(store), SESSION, str(count)]
    subprocess.run(write, check=True, timeout=DEADLINE, env=environment())
    with served(dragoman, folder, "--store", str(store)) as (url, token), pages() as browser:
        page = signed_in(browser, url, token)
        opened = page.evaluate(OPEN, [SESSION, f"Message {count - 1}:"])
        page.evaluate(_script("web_scroll"))  # everything is read and drawn once
        before = _renderer_seconds(browser)
        frames = page.evaluate(_script("web_scroll"))
        used = _renderer_seconds(browser) - before
        memory = max(_private_mb(process) for process in _renderers(browser))
    return {
        "open_ms": opened, "frame_ms": median(frames), "frame_cpu_ms": used / len(frames) * 1e3, "memory_mb": memory,
    }  # fmt: skip


OPEN = """async ([session, text]) => { const start = performance.now(); location.hash = `#/s/${session}`;
    while (!document.querySelector('.log')?.innerText.includes(text)) await new Promise(requestAnimationFrame);
    return performance.now() - start; }"""


def _script(name: str) -> str:
    """What is run in the page."""
    return (PEERS / f"{name}.js").read_text(encoding="utf-8")


def _renderers(browser: Any) -> list[dict[str, Any]]:
    """The processes that draw pages, as the browser tells them."""
    told = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return [process for process in told if process["type"] == "renderer"]


def _renderer_seconds(browser: Any) -> float:
    """CPU seconds of all threads of them so far, by the system: only one of them has a page that does something."""
    ticks = 0
    for process in _renderers(browser):
        fields = Path(f"/proc/{process['id']}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _private_mb(process: dict[str, Any]) -> float:
    """Memory of a process that it shares with no other."""
    status = Path(f"/proc/{process['id']}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(found[1]) / 1000 if found else 0.0


def signed_in(browser: Any, url: str, token: str) -> Any:
    """Return a page of somebody who has signed in."""
    page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    page.set_default_timeout(DEADLINE * 1000)
    page.goto(f"{url}/#token={token}")
    page.wait_for_selector(".app")
    return page


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
def served(
    dragoman: str, folder: Path, *arguments: str, agent: tuple[str, ...] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the address of a host in an empty folder, and a token of its owner."""
    environ = {**environment(), "XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state")}
    user = environ.get("USER") or os.environ.get("LOGNAME") or "root"
    store = arguments if "--store" in arguments else ()
    made = subprocess.run(
        [dragoman, "tokens", "create", user, "--role", "admin", *store],
        env=environ, capture_output=True, text=True, check=True, timeout=DEADLINE,
    )  # fmt: skip
    command = [dragoman, "serve", "--json", "--bind", "127.0.0.1:0", *arguments, "--"]
    with _running([*command, *(agent or (dragoman, "agent", "everything"))], folder, environ) as host:
        assert host.stdout is not None
        yield str(json.loads(host.stdout.readline())["url"]).removesuffix("/acp"), made.stdout.split()[-1]


@contextmanager
def opencode_page(opencode: str, folder: Path) -> Iterator[str]:
    """Yield the address of opencode's web page, with folders of its own."""
    home = folder / "opencode"
    home.mkdir()
    places = {name: str(home / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    environ = environment() | places | {"HOME": str(home)}
    with _running([opencode, "serve", "--pure", "--port", "0"], home, environ) as server:
        assert server.stdout is not None
        for line in server.stdout:
            if found := re.search(r"http://\S+", line):
                yield f"{found[0]}/"
                return
        raise OSError("opencode said no address")


@contextmanager
def _running(command: list[str], folder: Path, environ: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Yield a server as a process, until the block ends. It ends with what it started: opencode begins as a script."""
    server = subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, start_new_session=True
    )
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            pass
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait(DEADLINE)
