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
from collections.abc import Sequence

from dragoman.cli import exits
from dragoman.cli.arguments import Parser
from dragoman.cli.terminal import Sheet
from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.run import check
from dragoman.conformance.subject import Subject
from dragoman.conformance.verdict import Outcome, Verdict
from dragoman.dialect.registry import NAMES
from dragoman.errors import ConfigFault
from dragoman.policy.secrets import from_environment

LEVELS = {"must": ("MUST",), "should": ("MUST", "SHOULD"), "may": ("MUST", "SHOULD", "MAY")}

EXITS = """\
exit codes:
    0  every MUST that applies is kept (with --baseline: nothing got worse)
    1  a MUST is broken (with --baseline: something got worse)
    2  wrong usage, or a file of yours that cannot be used
    7  the peer could not be started
  130  ended by Ctrl-C; what was tried until then is reported"""


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


def listed(found: Sequence[Requirement]) -> int:
    """Print the requirements."""
    for each in found:
        where = f" [{', '.join(each.dialects)}]" if each.dialects else ""
        print(f"{each.id:20} {each.level.value:6} {each.sentence}{where} ({each.source})")
    return exits.OK


async def checked(
    subject: Subject, found: Sequence[Requirement], options: argparse.Namespace, peer: Sequence[str], side: str
) -> int:
    """Run the check, show it, write the reports; gives the exit code."""
    from dragoman.conformance.report import baseline as comparison
    from dragoman.conformance.report import facts

    before = facts.read(options.baseline) if options.baseline else None
    aside = Sheet(sys.stderr, os.environ)
    began = time.monotonic()
    verdicts: list[Verdict] = []
    is_cut = False
    loop, whole = asyncio.get_running_loop(), asyncio.current_task()
    assert whole is not None
    loop.add_signal_handler(signal.SIGINT, whole.cancel)
    try:
        async for verdict in check(subject, found, options.jobs):
            verdicts.append(verdict)
            _progress(aside, verdicts, len(found))
    except asyncio.CancelledError:  # Ctrl-C: what was tried until then took its time, and is reported
        is_cut = True
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    aside.unfoot()
    secrets = from_environment(os.environ)
    made = facts.report(side, peer, subject.dialect, verdicts, time.monotonic() - began, secrets=secrets)
    write(options, made)
    sheet = aside if options.json == "-" else Sheet(sys.stdout, os.environ)
    show(sheet, made)
    if is_cut:
        sheet.line(f"ended by Ctrl-C: {len(found) - len(verdicts)} of {len(found)} were not tried", "yellow")
        return exits.INTERRUPTED
    if before is None:
        return exits.FAILED if made.is_broken else exits.OK
    worse, better = comparison.worse(before, made), comparison.better(before, made)
    for row in worse:
        sheet.line(f"worse   {row.id:20} {row.outcome.value}: {row.why or row.sentence}", "red")
    for row in better:
        sheet.line(f"better  {row.id:20} {row.outcome.value}", "green")
    sheet.line(f"compared with {options.baseline}: {len(worse)} worse, {len(better)} better", "bold")
    return exits.FAILED if worse else exits.OK


def _progress(sheet: Sheet, verdicts: list[Verdict], total: int) -> None:
    """One line at the end of the terminal; nothing where there is none."""
    failed = sum(verdict.outcome is Outcome.FAIL for verdict in verdicts)
    sheet.footer(f"{len(verdicts)} of {total} tried, {failed} failed: {verdicts[-1].requirement}")


def show(sheet: Sheet, made: object) -> None:
    """The summary, line by line."""
    from dragoman.conformance.report.facts import Report
    from dragoman.conformance.report.summary import lines

    assert isinstance(made, Report)
    for line in lines(made):
        sheet.line(line.text, line.style)


def write(options: argparse.Namespace, made: object) -> None:
    """The files that were asked for; a path that cannot be written is one line."""
    from dragoman.conformance.report import facts, junit

    assert isinstance(made, facts.Report)
    if options.json == "-":
        sys.stdout.buffer.write(facts.encoded(made))
        sys.stdout.flush()
    elif options.json:
        _put(options.json, facts.encoded(made))
    if options.junit:
        _put(options.junit, junit.encoded(made))
    if options.html:
        from dragoman.conformance.report.page import page

        _put(options.html, page(made).encode())


def _put(path: str, data: bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise ConfigFault([f"cannot write {path}: {error.strerror}"]) from None
