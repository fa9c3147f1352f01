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
from dragoman.cli.ui.terminal import OutputStream, sanitize_line
from dragoman.conformance.harness.targets import Target
from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.runner import check
from dragoman.conformance.verdict import Outcome, Verdict
from dragoman.dialect.dialects import DIALECT_NAMES
from dragoman.errors import ConfigFault, StartFailed
from dragoman.policy.redaction import environment_secrets

if TYPE_CHECKING:
    from dragoman.conformance.report.model import Report

# What ends a check before its end, in the words of whoever did it.
STOP_SIGNALS: dict[int, str] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}

LEVELS = {"must": ("MUST",), "should": ("MUST", "SHOULD"), "may": ("MUST", "SHOULD", "MAY")}

EXIT_CODES_HELP = """\
exit codes:
    0  every MUST that applies is kept (with --baseline: nothing got worse)
    1  a MUST is broken (with --baseline: something got worse)
    2  wrong usage, or a file of yours that cannot be used
    7  the peer could not be started, or did not introduce itself
  130  ended by Ctrl-C; what was tried until then is reported
  143  ended by SIGTERM, likewise"""


def add_options(parser: Parser) -> None:
    """The options of both checks."""
    parser.add_argument("--dialect", default="auto", metavar="D", help=f"auto or one of {', '.join(DIALECT_NAMES)}")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="requirements, or beginnings of their ids")
    parser.add_argument("--level", choices=LEVELS, default="may", help="check up to this level (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write the report with its evidence as JSON (- for stdout)")
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML")
    parser.add_argument("--html", metavar="FILE", help="write one page with the evidence")
    parser.add_argument("--baseline", metavar="FILE", help="an earlier --json: fail only on what got worse")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="peers at a time")
    parser.add_argument("--list", action="store_true", help="list the requirements and check nothing")


def select_requirements(
    parser: Parser, options: argparse.Namespace, side: str, dialect: str = "", transport: str = ""
) -> list[Requirement]:
    """The requirements that the options name, for one side, dialect ("": any) and way ("": pipes)."""
    if options.dialect != "auto" and options.dialect not in DIALECT_NAMES:
        parser.error(f"there is no dialect {options.dialect!r}; there are: auto, {', '.join(DIALECT_NAMES)}")
    if options.jobs < 1:
        parser.error("--jobs is at least 1")
    found = [each for each in requirements().values() if each.side == side and each.level in LEVELS[options.level]]
    for start in options.only:
        if not any(each.id.startswith(start) for each in found):
            parser.error(f"no requirement is called {start!r}; --list lists them")
    if options.only:
        found = [each for each in found if each.id.startswith(tuple(options.only))]
    meant = [each for each in found if not dialect or each.applies(dialect, transport)]
    if dialect and options.only and not meant:
        where = f"over {transport}" if transport else "of a command"
        parser.error(f"{' and '.join(options.only)}: nothing of it is asked {where} that speaks {dialect}")
    return meant


def list_requirements(selected: Sequence[Requirement], options: argparse.Namespace) -> int:
    """Print the requirements, or write them as JSON."""
    if options.json:
        _write_output(options.json, msgspec.json.format(msgspec.json.encode(selected), indent=1) + b"\n")
        return exit_codes.OK
    for each in selected:
        where = f" [{', '.join(each.dialects)}]" if each.dialects else ""
        print(f"{each.id:20} {each.level.value:6} {each.sentence}{where} ({each.source})")
    return exit_codes.OK


class StopSignal:
    """Ctrl-C or SIGTERM (a CI that cancels) while a task runs: it is cancelled once, and may tidy up and report."""

    def __init__(self) -> None:
        self.signal = 0
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    def __enter__(self) -> StopSignal:
        for number in STOP_SIGNALS:
            self._loop.add_signal_handler(number, self._on_signal, number)
        return self

    def __exit__(self, *reason: object) -> None:
        for number in STOP_SIGNALS:
            self._loop.remove_signal_handler(number)

    def _on_signal(self, number: int) -> None:
        if not self.signal and self._task is not None:  # a second one must not end the tidying up
            self.signal = number
            self._task.cancel()

    @property
    def exit_code(self) -> int:
        """The exit code, as shells count."""
        return 128 + self.signal

    def summary_line(self, left: int, total: int) -> str:
        """The last line of a report."""
        return f"ended by {STOP_SIGNALS[self.signal]}: {left} of {total} were not tried"


def run_until_signal(
    run: Callable[[StopSignal], Coroutine[None, None, int]], parser: Parser, start_failure: str = ""
) -> int:
    """Run a check to its end or until a signal comes; return the exit code. `start_failure` begins the error text."""

    async def run_check_with_signals() -> int:
        with StopSignal() as stop:
            try:
                return await run(stop)
            except asyncio.CancelledError:
                if not stop.signal:
                    raise
                return parser.fail(f"ended by {STOP_SIGNALS[stop.signal]} before anything was tried", stop.exit_code)

    try:
        return asyncio.run(run_check_with_signals())
    except StartFailed as error:
        return parser.fail(f"{start_failure}{error}", exit_codes.DIED)
    except ConfigFault as error:
        return parser.fail("; ".join(error.faults), exit_codes.USAGE)


async def run_check(
    subject: Target,
    selected: Sequence[Requirement],
    options: argparse.Namespace,
    peer: Sequence[str],
    side: str,
    stop: StopSignal,
    baseline: Report | None = None,
) -> int:
    """Run the check, show it, write the reports; gives the exit code."""
    from dragoman.conformance.report import baseline as comparison
    from dragoman.conformance.report import model

    if baseline is not None:
        comparison.require_same_dialect(baseline, subject.dialect, options.baseline)
    aside = OutputStream(sys.stderr, os.environ)
    began = time.monotonic()
    verdicts: list[Verdict] = []
    try:
        async for verdict in check(subject, selected, options.jobs):
            verdicts.append(verdict)
            _show_progress(aside, verdicts, len(selected))
    except asyncio.CancelledError:  # what was tried until then took its time, and is reported
        if not stop.signal:
            raise
    aside.clear_footer()
    secrets = environment_secrets(os.environ)
    seconds, whole = time.monotonic() - began, not stop.signal
    made = model.report(side, peer, subject.dialect, verdicts, seconds, secrets=secrets, complete=whole)
    write_reports(options, made)
    sheet = aside if options.json == "-" else OutputStream(sys.stdout, os.environ)
    show_report(sheet, made)
    if stop.signal:
        sheet.write_line(stop.summary_line(len(selected) - len(verdicts), len(selected)), "yellow")
        return stop.exit_code
    if baseline is None:
        return exit_codes.FAILED if made.is_broken else exit_codes.OK
    return _show_comparison(sheet, baseline, made, options.baseline)


def _show_comparison(output: OutputStream, baseline: Report, report: Report, path: str) -> int:
    """Say what changed since the baseline; gives the exit code."""
    from dragoman.conformance.report import baseline as comparison

    worse, better = comparison.worse(baseline, report), comparison.better(baseline, report)
    strange = comparison.new_failures(baseline, report)
    if baseline.peer != report.peer:
        output.write_line(f"the baseline is of another command: {' '.join(baseline.peer)}", "dim")
    for row in (*worse, *strange):
        output.write_line(f"worse   {row.id:20} {row.outcome.value}: {sanitize_line(row.why or row.sentence)}", "red")
    for row in better:
        output.write_line(f"better  {row.id:20} {row.outcome.value}", "green")
    new = f" ({len(strange)} not in the baseline)" if strange else ""
    output.write_line(f"compared with {path}: {len(worse) + len(strange)} worse{new}, {len(better)} better", "bold")
    return exit_codes.FAILED if worse or strange else exit_codes.OK


def _show_progress(output: OutputStream, verdicts: list[Verdict], total: int) -> None:
    """One line at the end of the terminal; nothing where there is none."""
    failed = sum(verdict.outcome is Outcome.FAIL for verdict in verdicts)
    output.show_footer(f"{len(verdicts)} of {total} tried, {failed} failed: {verdicts[-1].requirement}")


def show_report(output: OutputStream, report: object) -> None:
    """The summary, line by line."""
    from dragoman.conformance.report.model import Report
    from dragoman.conformance.report.text import lines

    assert isinstance(report, Report)
    for line in lines(report):
        output.write_line(line.text, line.style)


def write_reports(options: argparse.Namespace, report: object) -> None:
    """The files that were asked for; a path that cannot be written is one line."""
    from dragoman.conformance.report import junit, model

    assert isinstance(report, model.Report)
    if options.json:
        _write_output(options.json, model.to_json(report))
    if options.junit:
        _write_file(options.junit, junit.to_xml(report))
    if options.html:
        from dragoman.conformance.report.page import page

        _write_file(options.html, page(report).encode())


def _write_output(path: str, data: bytes) -> None:
    """To a file, or to standard output for `-`."""
    if path != "-":
        _write_file(path, data)
        return
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _write_file(path: str, data: bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise ConfigFault([f"cannot write {path}: {error.strerror}"]) from None
