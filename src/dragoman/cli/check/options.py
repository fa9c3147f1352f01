"""What both checks share: their options, the progress while they run, and the reports."""

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

# Signals that end a check early, as the user calls them.
STOP_SIGNALS: dict[int, str] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}

LEVELS = {"must": ("MUST",), "should": ("MUST", "SHOULD"), "may": ("MUST", "SHOULD", "MAY")}

EXIT_CODES_HELP = """\
exit codes:
    0  every MUST that applies is met (with --baseline: nothing got worse)
    1  a MUST is violated (with --baseline: something got worse)
    2  wrong usage, or a file that cannot be used
    7  the peer could not be started, or did not initialize
  130  ended by Ctrl-C; what was tried until then is reported
  143  ended by SIGTERM; what was tried until then is reported"""


def add_options(parser: Parser) -> None:
    """Add the options of both checks."""
    parser.add_value("--dialect", "D", f"auto or one of {', '.join(DIALECT_NAMES)}", default="auto")
    parser.add_value("--only", "ID", "only these requirements: ids, or beginnings of ids", nargs="+", default=[])
    parser.add_argument("--level", choices=LEVELS, default="may", help="check up to this level (default: all)")
    parser.add_value("--json", "FILE", "write the report with its evidence as JSON (- for stdout)")
    parser.add_value("--junit", "FILE", "write JUnit XML")
    parser.add_value("--html", "FILE", "write one page with the evidence")
    parser.add_value("--baseline", "FILE", "report of an earlier --json: fail only if something got worse")
    parser.add_value("--jobs", "N", "number of peers at a time", type=int, default=os.cpu_count() or 1)
    parser.add_flag("--list", "list the requirements and check nothing")


def given_dialect(options: argparse.Namespace) -> str:
    """Return the dialect that --dialect names; "" if it is to be detected."""
    return "" if options.dialect == "auto" else str(options.dialect)


def select_requirements(
    parser: Parser, options: argparse.Namespace, side: str, dialect: str = "", transport: str = ""
) -> list[Requirement]:
    """Return the requirements that the options name, for one side, dialect ("": any) and transport ("": pipes)."""
    if options.dialect != "auto" and options.dialect not in DIALECT_NAMES:
        parser.error(f"there is no dialect {options.dialect!r}; choose one of: auto, {', '.join(DIALECT_NAMES)}")
    if options.jobs < 1:
        parser.error("--jobs: must be at least 1")
    found = [each for each in requirements().values() if each.side == side and each.level in LEVELS[options.level]]
    for start in options.only:
        if not any(each.id.startswith(start) for each in found):
            parser.error(f"there is no requirement {start!r}; --list lists all")
    if options.only:
        found = [each for each in found if each.id.startswith(tuple(options.only))]
    selected = [each for each in found if not dialect or each.applies(dialect, transport)]
    if dialect and options.only and not selected:
        where = f"over {transport}" if transport else "to a command"
        parser.error(f"{' and '.join(options.only)}: no such requirement applies {where} with the dialect {dialect}")
    return selected


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
    """Ctrl-C or SIGTERM (from a CI) while a task runs: the task is cancelled once, and can clean up and report."""

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
        if not self.signal and self._task is not None:  # a second one must not end the cleanup
            self.signal = number
            self._task.cancel()

    @property
    def exit_code(self) -> int:
        """The exit code, as in shells."""
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
    """Run the check, show it, write the reports; return the exit code."""
    from dragoman.conformance.report import baseline as comparison

    if baseline is not None:
        comparison.require_same_dialect(baseline, subject.dialect, options.baseline)
    progress = OutputStream(sys.stderr, os.environ)
    started = time.monotonic()
    verdicts: list[Verdict] = []
    try:
        async for verdict in check(subject, selected, options.jobs):
            verdicts.append(verdict)
            _show_progress(progress, verdicts, len(selected))
    except asyncio.CancelledError:  # what was tried until then is reported
        if not stop.signal:
            raise
    progress.clear_footer()
    output = progress if options.json == "-" else OutputStream(sys.stdout, os.environ)
    seconds = time.monotonic() - started
    result = report_verdicts(output, side, peer, subject.dialect, verdicts, len(selected), seconds, options, stop)
    if stop.signal:
        return stop.exit_code
    if baseline is None:
        return exit_codes.FAILED if result.is_broken else exit_codes.OK
    return _show_comparison(output, baseline, result, options.baseline)


def _show_comparison(output: OutputStream, baseline: Report, report: Report, path: str) -> int:
    """Show what changed since the baseline; return the exit code."""
    from dragoman.conformance.report import baseline as comparison

    worse, better = comparison.worse(baseline, report), comparison.better(baseline, report)
    new_failures = comparison.new_failures(baseline, report)
    if baseline.peer != report.peer:
        output.write_line(f"the baseline is of another command: {' '.join(baseline.peer)}", "dim")
    for row in (*worse, *new_failures):
        output.write_line(f"worse   {row.id:20} {row.outcome.value}: {sanitize_line(row.why or row.sentence)}", "red")
    for row in better:
        output.write_line(f"better  {row.id:20} {row.outcome.value}", "green")
    new = f" ({len(new_failures)} not in the baseline)" if new_failures else ""
    output.write_line(
        f"compared with {path}: {len(worse) + len(new_failures)} worse{new}, {len(better)} better", "bold"
    )
    return exit_codes.FAILED if worse or new_failures else exit_codes.OK


def _show_progress(output: OutputStream, verdicts: list[Verdict], total: int) -> None:
    """Show one line at the end of the terminal; in a file, a line for each chapter that is done."""
    failed = sum(verdict.outcome is Outcome.FAIL for verdict in verdicts)
    output.show_footer(f"{len(verdicts)} of {total} tried, {failed} failed: {verdicts[-1].requirement}")
    if output.is_tty:
        return
    chapter, before = (requirements()[verdict.requirement].chapter for verdict in (verdicts[-1], verdicts[-2:][0]))
    if chapter != before:
        output.write_line(f"{before} done: {len(verdicts) - 1} of {total} tried, {failed} failed")


def report_verdicts(
    output: OutputStream,
    side: str,
    peer: Sequence[str],
    dialect: str,
    verdicts: list[Verdict],
    total: int,
    seconds: float,
    options: argparse.Namespace,
    stop: StopSignal,
) -> Report:
    """Write the files that the options name, show the summary, and return the report; `total` were selected."""
    from dragoman.conformance.report import model
    from dragoman.conformance.report.text import lines

    secrets = environment_secrets(os.environ)
    report = model.report(side, peer, dialect, verdicts, seconds, secrets=secrets, complete=not stop.signal)
    _write_reports(options, report)
    for line in lines(report):
        output.write_line(line.text, line.style)
    if stop.signal:
        output.write_line(stop.summary_line(total - len(verdicts), total), "yellow")
    return report


def _write_reports(options: argparse.Namespace, report: Report) -> None:
    from dragoman.conformance.report import junit, model

    if options.json:
        _write_output(options.json, model.to_json(report))
    if options.junit:
        _write_file(options.junit, junit.to_xml(report))
    if options.html:
        from dragoman.conformance.report.page import page

        _write_file(options.html, page(report).encode())


def _write_output(path: str, data: bytes) -> None:
    """Write to a file, or to standard output for `-`."""
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
