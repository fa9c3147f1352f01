"""What the two checks share: their options, the progress while they run, and the reports they leave.

Takes a subject and the options of the command; gives the exit code. Below is the folder conformance/.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING

import msgspec

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import Sheet, single
from dragoman.conformance.harness.targets import Subject
from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.runner import check
from dragoman.conformance.verdict import Outcome, Verdict
from dragoman.dialect.dialects import NAMES
from dragoman.errors import ConfigFault
from dragoman.policy.redaction import from_environment

if TYPE_CHECKING:
    from dragoman.conformance.report.model import Report

# What ends a check before its end, in the words of whoever did it.
CUTS: dict[int, str] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}

LEVELS = {"must": ("MUST",), "should": ("MUST", "SHOULD"), "may": ("MUST", "SHOULD", "MAY")}

EXITS = """\
exit codes:
    0  every MUST that applies is kept (with --baseline: nothing got worse)
    1  a MUST is broken (with --baseline: something got worse)
    2  wrong usage, or a file of yours that cannot be used
    7  the peer could not be started, or did not introduce itself
  130  ended by Ctrl-C; what was tried until then is reported
  143  ended by SIGTERM, likewise"""


def add_options(parser: Parser) -> None:
    """The options of both checks."""
    parser.add_argument("--dialect", default="auto", metavar="D", help=f"auto or one of {', '.join(NAMES)}")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="requirements, or beginnings of their ids")
    parser.add_argument("--level", choices=LEVELS, default="may", help="check up to this level (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write the report with its evidence as JSON (- for stdout)")
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML")
    parser.add_argument("--html", metavar="FILE", help="write one page with the evidence")
    parser.add_argument("--baseline", metavar="FILE", help="an earlier --json: fail only on what got worse")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="peers at a time")
    parser.add_argument("--list", action="store_true", help="list the requirements and check nothing")


def chosen(
    parser: Parser, options: argparse.Namespace, side: str, dialect: str = "", way: str = ""
) -> list[Requirement]:
    """The requirements that the options name, for one side, dialect ("": any) and way ("": pipes)."""
    if options.dialect != "auto" and options.dialect not in NAMES:
        parser.error(f"there is no dialect {options.dialect!r}; there are: auto, {', '.join(NAMES)}")
    if options.jobs < 1:
        parser.error("--jobs is at least 1")
    found = [each for each in requirements().values() if each.side == side and each.level in LEVELS[options.level]]
    for start in options.only:
        if not any(each.id.startswith(start) for each in found):
            parser.error(f"no requirement is called {start!r}; --list lists them")
    if options.only:
        found = [each for each in found if each.id.startswith(tuple(options.only))]
    meant = [each for each in found if not dialect or each.applies(dialect, way)]
    if dialect and options.only and not meant:
        where = f"over {way}" if way else "of a command"
        parser.error(f"{' and '.join(options.only)}: nothing of it is asked {where} that speaks {dialect}")
    return meant


def listed(found: Sequence[Requirement], options: argparse.Namespace) -> int:
    """Print the requirements, or write them as JSON."""
    if options.json:
        _deliver(options.json, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
        return exit_codes.OK
    for each in found:
        where = f" [{', '.join(each.dialects)}]" if each.dialects else ""
        print(f"{each.id:20} {each.level.value:6} {each.sentence}{where} ({each.source})")
    return exit_codes.OK


class Cut:
    """Ctrl-C or SIGTERM (a CI that cancels) while a task runs: it is cancelled once, and may tidy up and report."""

    def __init__(self) -> None:
        self.signal = 0
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    def __enter__(self) -> Cut:
        for number in CUTS:
            self._loop.add_signal_handler(number, self._cut, number)
        return self

    def __exit__(self, *reason: object) -> None:
        for number in CUTS:
            self._loop.remove_signal_handler(number)

    def _cut(self, number: int) -> None:
        if not self.signal and self._task is not None:  # a second one must not end the tidying up
            self.signal = number
            self._task.cancel()

    @property
    def code(self) -> int:
        """The exit code, as shells count."""
        return 128 + self.signal

    def told(self, left: int, total: int) -> str:
        """The last line of a report."""
        return f"ended by {CUTS[self.signal]}: {left} of {total} were not tried"


def until_cut(work: Callable[[Cut], Coroutine[None, None, int]], name: str) -> int:
    """Run a check to its end or until somebody ends it; gives the exit code."""

    async def whole() -> int:
        with Cut() as cut:
            try:
                return await work(cut)
            except asyncio.CancelledError:
                if not cut.signal:
                    raise
                told = f"ended by {CUTS[cut.signal]} before anything was tried"
                print(f"dragoman check {name}: {told}", file=sys.stderr)
                return cut.code

    return asyncio.run(whole())


async def checked(
    subject: Subject,
    found: Sequence[Requirement],
    options: argparse.Namespace,
    peer: Sequence[str],
    side: str,
    cut: Cut,
    before: Report | None = None,
) -> int:
    """Run the check, show it, write the reports; gives the exit code."""
    from dragoman.conformance.report import baseline as comparison
    from dragoman.conformance.report import model

    if before is not None:
        comparison.fits(before, subject.dialect, options.baseline)
    aside = Sheet(sys.stderr, os.environ)
    began = time.monotonic()
    verdicts: list[Verdict] = []
    try:
        async for verdict in check(subject, found, options.jobs):
            verdicts.append(verdict)
            _progress(aside, verdicts, len(found))
    except asyncio.CancelledError:  # what was tried until then took its time, and is reported
        if not cut.signal:
            raise
    aside.unfoot()
    secrets = from_environment(os.environ)
    seconds, whole = time.monotonic() - began, not cut.signal
    made = model.report(side, peer, subject.dialect, verdicts, seconds, secrets=secrets, complete=whole)
    write(options, made)
    sheet = aside if options.json == "-" else Sheet(sys.stdout, os.environ)
    show(sheet, made)
    if cut.signal:
        sheet.line(cut.told(len(found) - len(verdicts), len(found)), "yellow")
        return cut.code
    if before is None:
        return exit_codes.FAILED if made.is_broken else exit_codes.OK
    return _compared(sheet, before, made, options.baseline)


def _compared(sheet: Sheet, before: Report, made: Report, path: str) -> int:
    """Say what changed since the baseline; gives the exit code."""
    from dragoman.conformance.report import baseline as comparison

    worse, better = comparison.worse(before, made), comparison.better(before, made)
    strange = comparison.strange(before, made)
    if before.peer != made.peer:
        sheet.line(f"the baseline is of another command: {' '.join(before.peer)}", "dim")
    for row in (*worse, *strange):
        sheet.line(f"worse   {row.id:20} {row.outcome.value}: {single(row.why or row.sentence)}", "red")
    for row in better:
        sheet.line(f"better  {row.id:20} {row.outcome.value}", "green")
    new = f" ({len(strange)} not in the baseline)" if strange else ""
    sheet.line(f"compared with {path}: {len(worse) + len(strange)} worse{new}, {len(better)} better", "bold")
    return exit_codes.FAILED if worse or strange else exit_codes.OK


def _progress(sheet: Sheet, verdicts: list[Verdict], total: int) -> None:
    """One line at the end of the terminal; nothing where there is none."""
    failed = sum(verdict.outcome is Outcome.FAIL for verdict in verdicts)
    sheet.footer(f"{len(verdicts)} of {total} tried, {failed} failed: {verdicts[-1].requirement}")


def show(sheet: Sheet, made: object) -> None:
    """The summary, line by line."""
    from dragoman.conformance.report.model import Report
    from dragoman.conformance.report.text import lines

    assert isinstance(made, Report)
    for line in lines(made):
        sheet.line(line.text, line.style)


def write(options: argparse.Namespace, made: object) -> None:
    """The files that were asked for; a path that cannot be written is one line."""
    from dragoman.conformance.report import junit, model

    assert isinstance(made, model.Report)
    if options.json:
        _deliver(options.json, model.encoded(made))
    if options.junit:
        _put(options.junit, junit.encoded(made))
    if options.html:
        from dragoman.conformance.report.page import page

        _put(options.html, page(made).encode())


def _deliver(path: str, data: bytes) -> None:
    """To a file, or to standard output for `-`."""
    if path != "-":
        _put(path, data)
        return
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _put(path: str, data: bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise ConfigFault([f"cannot write {path}: {error.strerror}"]) from None
