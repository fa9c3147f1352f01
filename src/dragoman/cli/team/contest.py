"""What `dragoman compare` and `dragoman race` share: the options, the run with its progress, the table, the page."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.cli import exit_codes
from dragoman.cli.connect.prompt import Interrupts
from dragoman.cli.connect.prompt_text import add_prompt_options, read_prompt_text
from dragoman.cli.parser import Parser, unknown_word
from dragoman.cli.team.merge import merge_lines
from dragoman.cli.team.options import add_agents_option, read_team
from dragoman.cli.ui.format import print_json
from dragoman.cli.ui.key_prompt import find_prompter
from dragoman.cli.ui.permission import PermissionUI
from dragoman.cli.ui.progress import show_progress
from dragoman.cli.ui.terminal import TerminalOutput, sanitize_line
from dragoman.config.paths import user_paths
from dragoman.policy.modes import MODES

if TYPE_CHECKING:
    from dragoman.bridge.team.comparison import AgentRun, Comparison
    from dragoman.config.teams_section import TeamSection
    from dragoman.roles.client.permission.guard import Guard

# What the table shows of a run; the last column may be cut.
HEADINGS = ("agent", "end", "changes", "tests", "tokens", "cost", "time", "branch")
_TESTS = {None: "-", True: "pass", False: "fail"}
_STYLES = {"pass": "green", "fail": "red"}


class Contest(NamedTuple):
    """What the user wants."""

    team: TeamSection
    prompt: str
    until: str
    rounds: int
    timeout: float | None
    yes: bool
    mode: str | None
    as_json: bool
    page: str | None
    apply: str | None  # the agent whose work is merged; "" is the winner
    is_race: bool


def add_contest_options(parser: Parser) -> None:
    """Add the options of both commands."""
    add_prompt_options(parser)
    add_agents_option(parser)
    parser.add_value("--team", "NAME", "the agents of a team of config.toml")
    parser.add_value("--until", "CMD", "a command that must succeed, such as 'pytest -q'", default="")
    parser.add_value("--timeout", "SECONDS", "stop a turn after this time", type=float)
    parser.add_value("--page", "FILE", "write a page with the diffs next to each other")
    parser.add_flag("--json", "print JSON")
    parser.add_flag("-y --yes", "allow what would be asked; not what the policy denies")
    parser.add_value("--mode", "MODE", "policy mode", choices=tuple(MODES))


def read_contest(parser: Parser, arguments: list[str], *, is_race: bool) -> tuple[Contest, argparse.Namespace]:
    """Return the checked options."""
    options = parser.read_options(arguments)
    for name in ("primary", "route", "isolate", "depth", "width", "tokens", "cost"):
        setattr(options, name, None)
    team = read_team(parser, options, options.team)
    if options.timeout is not None and not 0 < options.timeout < 1e9:
        parser.error("--timeout must be a number of seconds")
    if not (prompt := read_prompt_text(parser, options)):
        parser.error("the prompt is empty")
    apply = options.apply
    if is_race:
        apply = "" if options.apply else None
    elif apply is not None and apply not in team.agents:
        parser.error(f"--apply: {unknown_word('agent', apply, team.agents)}")
    return Contest(
        team=team,
        prompt=prompt,
        until=options.until,
        rounds=getattr(options, "rounds", 1),
        timeout=options.timeout,
        yes=options.yes,
        mode=options.mode,
        as_json=options.json,
        page=options.page,
        apply=apply,
        is_race=is_race,
    ), options


async def run_contest(contest: Contest) -> int:
    """Run it, show the table, and merge if wanted; return the exit code."""
    from dragoman.bridge.team.bounds import TeamBounds
    from dragoman.bridge.team.comparison import Comparison, to_json
    from dragoman.bridge.team.team import Team
    from dragoman.bridge.team.worktrees import NothingToStartFrom

    terminal = TerminalOutput(sys.stdout, sys.stderr)
    interrupts, guards = Interrupts(), _Guards(contest, terminal)
    agents = contest.team.agents
    team = Team(
        ".",
        agents,
        name="race" if contest.is_race else "compare",
        isolate=True,
        bounds=TeamBounds(width=max(len(agents), TeamBounds().width)),
        guard=guards.make,
        tools=False,
    )
    merged: dict[str, Any] = {}
    code = exit_codes.OK
    try:
        async with team:
            comparison = Comparison(
                team, contest.prompt, until=contest.until, rounds=contest.rounds, timeout=contest.timeout
            )
            async with show_progress(
                terminal.diagnostics,
                lambda seconds: f"{_states(list(comparison.runs.values()))} · {seconds} s · Ctrl-C stops all",
                is_paused=lambda: guards.is_asking,
            ):
                await (comparison.race() if contest.is_race else comparison.compare())
            applied = comparison.winner if contest.apply == "" else contest.apply
            lines: list[str] = []
            if applied is not None:
                result = await team.merge(applied)
                merged = {"agent": applied, "files": list(result.files), "conflicts": list(result.conflicts)}
                lines, code = merge_lines(result), exit_codes.OK if result.is_clean else exit_codes.FAILED
            if contest.is_race:
                await team.drop_branches(except_of=comparison.winner)
    except NothingToStartFrom as error:  # these commands always isolate
        raise NothingToStartFrom(error.what, error.remedy, can_share=False) from None
    except asyncio.CancelledError:
        terminal.diagnostics.write_line("interrupted; all agents are stopped", "yellow")
        return interrupts.exit_code
    finally:
        await guards.close()
    runs = list(comparison.runs.values())
    _forget_missing_branches(runs, comparison, contest)
    if contest.page is not None:
        _write_page(contest, comparison)
    if contest.as_json:
        print_json(
            to_json(comparison, {"prompt": contest.prompt, "until": contest.until or None, "applied": merged or None})
        )
    else:
        print_table(runs, comparison.winner, terminal)
        for line in [*lines, *_advice(contest, comparison)]:
            print(sanitize_line(line))
    return code or _exit_code(contest, comparison)


def _exit_code(contest: Contest, comparison: Comparison) -> int:
    """Return success if there is a winner, or in a comparison if every agent ended and its tests pass."""
    if contest.is_race:
        return exit_codes.OK if comparison.winner is not None else exit_codes.FAILED
    runs = comparison.runs.values()
    return exit_codes.OK if all(run.state == "done" and run.tests is not False for run in runs) else exit_codes.FAILED


def _forget_missing_branches(runs: list[AgentRun], comparison: Comparison, contest: Contest) -> None:
    """A branch without changes is removed with its worktree; so are those of the losers of a race."""
    for run in runs:
        if not run.files or (contest.is_race and run.agent != comparison.winner):
            run.branch = ""


class _Guards:
    """The guards of all agents: one policy, one place where the user is asked, with the name of the agent."""

    def __init__(self, contest: Contest, terminal: TerminalOutput) -> None:
        self._contest = contest
        self._terminal = terminal
        self._prompter = find_prompter(terminal.diagnostics)
        self._question_lock = asyncio.Lock()
        self._interfaces: list[PermissionUI] = []

    def make(self, name: str) -> Guard:
        """Return the guard of an agent."""
        interface = PermissionUI(
            self._terminal.diagnostics,
            self._prompter,
            cwd=os.getcwd(),
            yes=self._contest.yes,
            paths=user_paths(),
            mode=self._contest.mode,
            agent=name,
            question_lock=self._question_lock,
        )
        self._interfaces.append(interface)
        return interface.guard

    @property
    def is_asking(self) -> bool:
        return any(each.is_asking for each in self._interfaces)

    async def close(self) -> None:
        for each in self._interfaces:
            await each.close()


def _states(runs: Sequence[AgentRun]) -> str:
    return ", ".join(f"{sanitize_line(run.agent)} {run.state}" for run in runs)


def _count(files: int) -> str:
    return f"{files} file{'' if files == 1 else 's'}"


def table_rows(runs: Sequence[AgentRun], winner: str | None) -> list[tuple[str, ...]]:
    """Return the cells of the table."""
    return [
        (
            f"{run.agent}{' *' if run.agent == winner else ''}",
            run.stop_reason if run.state == "done" else run.state,
            f"{_count(len(run.files))} +{run.added} -{run.removed}" if run.files else "none",
            _TESTS[run.tests],
            f"{run.tokens:,}" if run.tokens else "-",
            f"{run.cost:.4g}" if run.cost else "-",
            f"{run.seconds:.1f} s",
            run.branch or "-",
        )
        for run in runs
    ]


def print_table(runs: Sequence[AgentRun], winner: str | None, terminal: TerminalOutput) -> None:
    """Print the table and the errors."""
    rows = [HEADINGS, *table_rows(runs, winner)]
    widths = [max(len(row[number]) for row in rows) for number in range(len(HEADINGS))]
    for number, row in enumerate(rows):
        cells = [f"{sanitize_line(cell):{width}}" for cell, width in zip(row, widths, strict=True)]
        style = "bold" if number == 0 else _STYLES.get(row[3], "")
        terminal.answer.write_line("  ".join(cells).rstrip(), style)
    for run in runs:
        if run.error:
            terminal.diagnostics.write_line(f"{sanitize_line(run.agent)}: {sanitize_line(run.error)}", "red")


def _advice(contest: Contest, comparison: Comparison) -> list[str]:
    branches = [run.branch for run in comparison.runs.values() if run.branch]
    if contest.apply is not None or not branches:
        return []
    return [
        f"take one with: dragoman team merge {branches[0]}",
        f"remove them with: git branch -D {' '.join(branches)}",
    ]


def _write_page(contest: Contest, comparison: Comparison) -> None:
    from dragoman.bridge.team.page import page

    about = contest.prompt + (f"\nuntil: {contest.until}" if contest.until else "")
    title = f"dragoman {'race' if contest.is_race else 'compare'}: {', '.join(comparison.runs)}"
    with open(str(contest.page), "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(page(title, about, list(comparison.runs.values()), comparison.winner))
