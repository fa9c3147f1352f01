"""A real Chromium, a host as a process, and people with pages in it: shared by the tests of the web page."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from tests.cli.process import DRAGOMAN, EVERYTHING, TIMEOUT
from tests.cli.serve_process import Served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

needs_browser = pytest.mark.skipif(
    not CHROMIUM, reason="there is no Chromium here: `make web-test` as root installs Debian's, or install one yourself"
)

# Long forms run with `make web-test`; the suite has the short ones.
IS_WHOLE = os.environ.get("DRAGOMAN_WEB_TESTS") == "whole"
only_whole = pytest.mark.skipif(not IS_WHOLE, reason="part of `make web-test`, which takes minutes")

# How long a page may take to show something on a machine under load. Milliseconds.
PATIENCE = 90_000

DESK: ViewportSize = {"width": 1400, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}


class WebHost(Served):
    """A host as a process. Its address, users and folder stay when it is started again."""

    def __init__(self, folder: Path, *arguments: str, has_root: bool = True, **more: Any) -> None:
        self.project = folder / "project"
        self.project.mkdir(exist_ok=True)
        self.log = folder / "host.log"
        root = ("--root", str(self.project)) if has_root else ()
        super().__init__(folder, "--bind", "127.0.0.1:0", "--verbose", *root, *arguments, **more)
        self.port = int(self.url.rpartition(":")[2])

    def start(self) -> None:
        if hasattr(self, "port"):
            self.arguments = ("--bind", f"127.0.0.1:{self.port}", *self.arguments[2:])
        super().start()
        assert self.process.stderr is not None
        self._copier = subprocess.Popen(
            ["tee", "-a", str(self.log)], stdin=self.process.stderr, stdout=subprocess.DEVNULL
        )

    def kill(self) -> None:
        """End it as a crash would."""
        self.end(signal.SIGKILL)

    def process_owner(self) -> str:
        """The user who runs the host, to whom sessions belong that nobody opened here."""
        return getpass.getuser()

    def token(self, user: str, role: str = "editor", *more: str) -> str:
        """Create a token."""
        command = [*DRAGOMAN, "tokens", "create", user, "--role", role, *more]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=TIMEOUT, check=True)
        return done.stdout.split()[-1]


class Person:
    """Somebody with a browser of their own."""

    def __init__(self, host: WebHost, context: BrowserContext) -> None:
        self.host = host
        self.context = context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.errors: list[str] = []  # of scripts and of the policy of the page
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(f"{error.message}\n{error.stack}"))
        self.page.on("console", self._note_console)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _note_console(self, message: Any) -> None:
        if "Content Security Policy" in message.text or "Trusted" in message.text:
            self.errors.append(message.text)

    def sign_in(self, token: str) -> Person:
        """Open the page with a token in the address, as a link does."""
        self.page.goto(f"{self.host.url}/#token={token}")
        self.page.wait_for_selector(".app")
        return self

    def open(self, session: str, part: str = "") -> Person:
        """Show a session."""
        self.page.evaluate("hash => { location.hash = hash }", f"#/s/{session}{part}")
        self.page.wait_for_selector(".log:not([hidden])")
        self.wait("() => document.querySelector('.live')?.classList.contains('live')")
        return self

    def wait(self, condition: str, argument: Any = None) -> None:
        """Wait until something is true in the page."""
        self.page.wait_for_function(condition, arg=argument)

    def say(self, text: str) -> None:
        """Send a prompt."""
        self.page.fill("#composer", text)
        self.page.click("button.send")

    def see(self, text: str) -> None:
        """Wait until the transcript shows a text."""
        self.wait("text => document.querySelector('.log')?.innerText.includes(text)", text)

    def idle(self) -> None:
        """Wait until no turn runs."""
        self.wait("() => document.querySelector('button.stop')?.hidden && !document.querySelector('.queue li')")

    def set_role(self, session: str, user: str, role: str) -> None:
        """Set the role of somebody in a session, as its admin."""
        body = json.dumps({"user": user, "role": role})
        status = self.page.evaluate(
            "async ([id, body]) => (await fetch(`api/sessions/${id}/members`, {method: 'POST', body})).status",
            [session, body],
        )
        assert status == 200

    def measure_work(self) -> Callable[[], float]:
        """Return a function that tells how long the page has worked since now: CPU seconds of its main thread."""
        client = self.context.new_cdp_session(self.page)
        client.send("Performance.enable", {"timeDomain": "threadTicks"})

        def worked() -> float:
            metrics = {each["name"]: each["value"] for each in client.send("Performance.getMetrics")["metrics"]}
            return float(metrics["TaskDuration"])

        before = worked()
        return lambda: worked() - before

    @property
    def story(self) -> list[str]:
        """What the transcript shows, in order, without times: a page measures how long a call takes by itself."""
        items: list[str] = self.page.eval_on_selector_all(
            ".item article, .item .tool > summary, .item .note", "nodes => nodes.map(node => node.innerText.trim())"
        )
        return [" ".join(word for word in _DURATION.sub(" ", item).split() if not _is_time(word)) for item in items]

    def await_story(self, other: Person) -> None:
        """Wait until the transcripts of two pages show the same."""
        deadline = time.monotonic() + PATIENCE / 1000
        while self.story != other.story and time.monotonic() < deadline:
            self.page.wait_for_timeout(100)
        assert self.story == other.story

    def answer_question(self, key: str) -> None:
        """Answer the open question by a key, when it takes answers."""
        self.page.wait_for_selector(".asks")
        self.page.evaluate("() => document.activeElement.blur()")
        self.await_answers()
        self.page.keyboard.press(key)

    def await_answers(self) -> None:
        """Wait until the open question takes answers: not right after it appeared, and not right after a key."""
        self.page.wait_for_timeout(700)
        self.page.wait_for_selector(".asks.settled")


_DURATION = re.compile(r"\s\d+ (?:ms|s|min)(?=\s|$)")


def _is_time(word: str) -> bool:
    return len(word) == 5 and word[2] == ":"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


MakePerson = Callable[..., Person]


def secret_of(token: str) -> str:
    """Return the secret part of a token, which can have underscores: dgm_ID_SECRET."""
    return token.split("_", 2)[2]


def rpc_session(person: Person, folder: Path | None = None) -> str:
    """Open a session through the page's own dialog and return its id."""
    page = person.page
    before = page.evaluate("() => location.hash")
    page.click("button[aria-label='New session']")
    page.fill("#new-folder", str(folder or person.host.project))
    page.click("dialog button[type=submit]")
    person.wait("before => location.hash.startsWith('#/s/') && location.hash !== before", before)
    page.wait_for_selector(".log:not([hidden])")
    session: str = page.evaluate("() => location.hash.split('/')[2]")
    person.wait("() => document.querySelector('.live')?.classList.contains('live')")
    return session


__all__ = ["EVERYTHING", "Person", "WebHost", "chromium", "needs_browser", "only_whole", "rpc_session"]
