"""The live half of `dragoman check client --serve`: the command to configure, then each verdict as it comes.

Takes the reception at which the editor's tester reports; gives the exit code. Ctrl-C is how it usually ends, and what
was tried until then is reported like any other check.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence

from dragoman.cli import exit_codes
from dragoman.cli.check.options import Cut, show, write
from dragoman.cli.ui.terminal import Sheet, single, visible
from dragoman.conformance.harness.editor import ServedClient, command
from dragoman.conformance.report import model
from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.runner import try_one
from dragoman.conformance.verdict import Outcome, Verdict
from dragoman.policy.redaction import from_environment
from dragoman.testing.reception import Reception

STYLES = {Outcome.PASS: "green", Outcome.FAIL: "red", Outcome.INCONCLUSIVE: "yellow", Outcome.NOT_APPLICABLE: "dim"}


async def served(
    reception: Reception, dialect: str, found: Sequence[Requirement], options: argparse.Namespace, cut: Cut
) -> int:
    """Try one requirement after the other until there are no more, or the user has enough."""
    sheet = Sheet(sys.stderr if options.json == "-" else sys.stdout, os.environ)
    words = command(reception)
    _explain(sheet, words, len(found))
    client = ServedClient(reception, dialect, lambda text: sheet.line(text, "dim"))
    verdicts: list[Verdict] = []
    began = time.monotonic()
    try:
        await _try(client, found, verdicts, sheet)
    except asyncio.CancelledError:  # how it usually ends
        if not cut.signal:
            raise
    finally:
        await client.close()
    if not verdicts:
        return cut.code
    secrets = from_environment(os.environ)
    seconds, whole = time.monotonic() - began, not cut.signal
    made = model.report("client", words, dialect, verdicts, seconds, secrets=secrets, complete=whole)
    write(options, made)
    show(sheet, made)
    if cut.signal:
        sheet.line(cut.told(len(found) - len(verdicts), len(found)), "yellow")
    if cut.signal == signal.SIGTERM:
        return cut.code
    return exit_codes.FAILED if made.is_broken else exit_codes.OK


def _explain(sheet: Sheet, words: list[str], count: int) -> None:
    sheet.line("Configure this command as an agent of the editor:", "bold")
    sheet.line(f"  {shlex.join(words)}")
    sheet.line("In Zed, for example, in settings.json:")
    entry = {"dragoman check": {"type": "custom", "command": words[0], "args": words[1:]}}
    sheet.line(f'  "agent_servers": {json.dumps(entry)}')
    sheet.line(f"{count} requirements are tried, one with each prompt. Ctrl-C ends it and shows what was found.")


async def _try(client: ServedClient, found: Sequence[Requirement], verdicts: list[Verdict], sheet: Sheet) -> None:
    for requirement in found:
        verdict = await try_one(client, requirement)
        verdicts.append(verdict)
        sentence = requirements()[verdict.requirement].sentence
        why = f" ({visible(single(verdict.why))})" if verdict.why else ""
        sheet.line(f"{verdict.outcome.value:15} {verdict.requirement:20} {sentence}{why}", STYLES[verdict.outcome])
