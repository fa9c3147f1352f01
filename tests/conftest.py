"""What every test run needs: settings for properties, and the acceptance page.

A test names the items it shows with `@pytest.mark.item("004-34")`. Each worker hands the marks over with its
reports; the process that sees all reports writes the page when `--acceptance` is given, all tests were run,
and none failed. Who is marked with what is checked at collection, so a wrong id never goes unseen.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from tests.acceptance import page

# Whoever started us may ignore hang-ups (nohup does) and Ctrl-C (a shell does, for what it runs in the background);
# commands inherit that, and some tests hang commands up or interrupt them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Collecting the tests makes objects that all live until the end: looking for garbage among them takes 40 % of the time.
gc.disable()

# The machines that run this are shared: how long one example takes says nothing about the code.
settings.register_profile("dragoman", deadline=None, print_blob=True)
settings.load_profile("dragoman")

# What commands keep of a user (policy, grants, audit, sessions) is kept of nobody here.
_PLACES = tempfile.TemporaryDirectory(prefix="dragoman-tests-")
for _variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
    os.environ[_variable] = os.path.join(_PLACES.name, _variable.lower())

# How long one async test may take, in seconds. It is a bound for a hang: the slowest take a few seconds, on a loaded
# machine ten times that.
ASYNC_LIMIT = 240.0

PAGE = Path("docs", "acceptance.md")
PROPERTY = "acceptance item"

# Options that leave tests out. A page written from a part of the tests would claim too little.
NARROWING = ("keyword", "markexpr", "lf", "deselect", "ignore", "ignore_glob", "maxfail", "collectonly")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --acceptance. A flag: pytest takes the value of an option it learns this late for a test."""
    parser.addoption("--acceptance", action="store_true", help=f"write {PAGE} after a full green run")


def pytest_configure(config: pytest.Config) -> None:
    """Starts collecting results, in the one process that sees them all."""
    if config.getoption("acceptance") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(AcceptanceWriter(config), "acceptance-writer")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an `async def` test in an event loop of its own, with a limit."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def bounded() -> None:
        async with asyncio.timeout(ASYNC_LIMIT):
            await test(**arguments)

    asyncio.run(bounded())
    return True


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Puts each test's item ids where its reports carry them, and refuses ids nobody knows."""
    known = set(page.item_ids(page.read_table()))
    unknown: list[str] = []
    for item in items:
        for mark in item.iter_markers("item"):
            unknown += [f"{item.nodeid} names {id!r}" for id in mark.args if id not in known]
            item.user_properties += [(PROPERTY, id) for id in mark.args]
    if unknown:
        raise pytest.UsageError("no such acceptance item: " + "; ".join(unknown))


def pytest_collection_finish() -> None:
    """Enables the garbage collector, for what the tests make."""
    gc.enable()
    gc.freeze()


class AcceptanceWriter:
    """Collects the reports of a run and writes the page at its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._path = config.rootpath / PAGE
        self._passed: defaultdict[str, set[str]] = defaultdict(set)
        self._outcome = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts a test that was called and passed; skips, expected failures and failures do not count."""
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            for name, id in report.user_properties:
                if name == PROPERTY:
                    self._passed[str(id)].add(report.nodeid)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Writes the page, or remembers why not."""
        if exitstatus != pytest.ExitCode.OK:
            self._outcome = "left as it is: the run was not green"
        elif reason := self._narrowed():
            self._outcome = f"left as it is: only a part of the tests was run ({reason})"
        else:
            text = page.render(page.read_table(), self._passed)
            changed = not self._path.exists() or self._path.read_text(encoding="utf-8") != text
            if changed:
                self._path.write_text(text, encoding="utf-8")
            self._outcome = "written" if changed else "unchanged"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says what became of the page, and the score of this run."""
        total = len(page.item_ids(page.read_table()))
        terminalreporter.write_line(f"{PAGE}: {self._outcome}; this run shows {len(self._passed)} of {total} items")

    def _narrowed(self) -> str:
        if self._config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
            return "paths were named"
        used = [name for name in NARROWING if self._config.getoption(name, default=None)]
        return ", ".join(used)
