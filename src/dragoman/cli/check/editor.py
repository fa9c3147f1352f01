"""The live half of `dragoman check client --serve`: the command to configure, then each verdict as it comes.

Takes the socket to which the editor's tester reports; gives the exit code. Ctrl-C is how it usually ends, and what
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
from dragoman.cli.check.options import StopSignal, show_report, write_reports
from dragoman.cli.ui.terminal import OutputStream, sanitize, sanitize_line
from dragoman.conformance.harness.editor import EditorClient, agent_command
from dragoman.conformance.report import model
from dragoman.conformance.requirement import Requirement, requirements
from dragoman.conformance.runner import try_one
from dragoman.conformance.verdict import Outcome, Verdict
from dragoman.policy.redaction import environment_secrets
from dragoman.testing.fake_agents import StubListener

OUTCOME_STYLES = {
    Outcome.PASS: "green",
    Outcome.FAIL: "red",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.NOT_APPLICABLE: "dim",
}


async def serve_check(
    listener: StubListener, dialect: str, selected: Sequence[Requirement], options: argparse.Namespace, stop: StopSignal
) -> int:
    """Try one requirement after the other until there are no more, or the user has enough."""
    sheet = OutputStream(sys.stderr if options.json == "-" else sys.stdout, os.environ)
    words = agent_command(listener)
    _show_setup(sheet, words, len(selected))
    client = EditorClient(listener, dialect, lambda text: sheet.write_line(text, "dim"))
    verdicts: list[Verdict] = []
    began = time.monotonic()
    try:
        await _try_requirements(client, selected, verdicts, sheet)
    except asyncio.CancelledError:  # how it usually ends
        if not stop.signal:
            raise
    finally:
        await client.close()
    if not verdicts:
        return stop.exit_code
    secrets = environment_secrets(os.environ)
    seconds, whole = time.monotonic() - began, not stop.signal
    made = model.report("client", words, dialect, verdicts, seconds, secrets=secrets, complete=whole)
    write_reports(options, made)
    show_report(sheet, made)
    if stop.signal:
        sheet.write_line(stop.summary_line(len(selected) - len(verdicts), len(selected)), "yellow")
    if stop.signal == signal.SIGTERM:
        return stop.exit_code
    return exit_codes.FAILED if made.is_broken else exit_codes.OK


def _show_setup(output: OutputStream, argv: list[str], count: int) -> None:
    output.write_line("Configure this command as an agent of the editor:", "bold")
    output.write_line(f"  {shlex.join(argv)}")
    output.write_line("In Zed, for example, in settings.json:")
    entry = {"dragoman check": {"type": "custom", "command": argv[0], "args": argv[1:]}}
    output.write_line(f'  "agent_servers": {json.dumps(entry)}')
    output.write_line(f"{count} requirements are tried, one with each prompt. Ctrl-C ends it and shows what was found.")


async def _try_requirements(
    client: EditorClient, selected: Sequence[Requirement], verdicts: list[Verdict], output: OutputStream
) -> None:
    for requirement in selected:
        verdict = await try_one(client, requirement)
        verdicts.append(verdict)
        sentence = requirements()[verdict.requirement].sentence
        why = f" ({sanitize(sanitize_line(verdict.why))})" if verdict.why else ""
        output.write_line(
            f"{verdict.outcome.value:15} {verdict.requirement:20} {sentence}{why}", OUTCOME_STYLES[verdict.outcome]
        )
