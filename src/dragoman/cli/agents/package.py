"""`dragoman agents package`: make the files that publish an agent, after all checks that need no network."""

from __future__ import annotations

import os
import sys
from typing import Any

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser
from dragoman.cli.ui.format import print_json
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.packaging.faults import Findings
from dragoman.packaging.output import write_package
from dragoman.packaging.source import Source, read_source
from dragoman.packaging.targets import BUILDERS, EXEMPT

EPILOG = """\
FOLDER has agent.json in the form of the official registry (a Python project can
do without: pyproject.toml is read), icon.svg, LICENSE, README.md, and the built
programs in bin/PLATFORM, such as bin/linux-x86_64. All rules are checked first;
each broken one is one line with its fix, and nothing is written. The icon is
brought to 16 by 16 in one color. Archives are named as the manifest needs them,
and their hashes are put into it.

With a command after --, the agent is started, and what it says about itself is
compared with agent.json.

The result is FOLDER/build/KIND; publish.sh in it does everything up to the
network, and the rest with --push. docs/packaging.md has the details.

exit codes:
  0  the package is made (with --check: it could be made)
  1  a rule is broken, or a file cannot be used
  2  wrong usage
  7  the agent did not start

examples:
  dragoman agents package --for registry .
  dragoman agents package --for registry --check . -- ./my-agent --acp
  dragoman agents package --for zed-extension my-agent
  dragoman agents package --for pypi my-agent --out /tmp/release"""


def main(command: str, arguments: list[str]) -> int:
    """Check the folder, and write the package."""
    parser = Parser(
        command, "--for KIND FOLDER [OPTIONS] [-- CMD ARG...]", "Make the files that publish an agent.", EPILOG
    )
    parser.add_argument("folder", metavar="DIR", help="the folder of the agent")
    parser.add_value(
        "--for", "KIND", f"one of: {', '.join(BUILDERS)}", dest="kind", required=True, choices=tuple(BUILDERS)
    )
    parser.add_value("--out", "DIR", "write to this folder (FOLDER/build/KIND)")
    parser.add_flag("--check", "only check")
    parser.add_flag("--json", "print JSON")
    options, agent = parser.read(arguments)
    folder = os.path.abspath(os.path.expanduser(options.folder))
    if not os.path.isdir(folder):
        parser.error(f"{options.folder} is no folder")
    out = os.path.abspath(options.out) if options.out else os.path.join(folder, "build", options.kind)
    source = read_source(folder, _progress if sys.stderr.isatty() else lambda text: None)
    if agent:
        try:
            _try_agent(agent, source)
        except (ConnectionFailed, ProtocolError) as error:
            return parser.fail(f"the agent did not answer initialize: {error}", exit_codes.DIED)
    package = BUILDERS[options.kind](source)
    findings = source.findings
    findings.faults = [each for each in findings.faults if not each.rule.startswith(EXEMPT[options.kind] or "\0")]
    findings.notes += package.notes
    paths = [] if findings.faults or options.check else write_package(package, out)
    _report(findings, paths, out, is_json=options.json)
    return exit_codes.FAILED if findings.faults else exit_codes.OK


def _progress(text: str) -> None:
    print(f"{sanitize_line(text)} ...", file=sys.stderr, flush=True)


def _try_agent(command: list[str], source: Source) -> None:
    """Start the agent, and compare what it says with the manifest."""
    from dragoman import connect
    from dragoman.engine.loop import run

    async def ask() -> Any:
        async with connect(command) as agent:
            return agent.initialize_result

    compare_introduction(run(ask()), source)


def compare_introduction(result: Any, source: Source) -> None:
    """Compare the answer to initialize with the manifest, as the registry does."""
    findings, manifest = source.findings, source.manifest
    info = result.agent_info
    version = getattr(info, "version", None)
    if version and version != manifest.get("version"):
        findings.add_fault(
            "agent.version",
            f"the agent says that it is {version}",
            f"agent.json says {manifest.get('version')}: use one",
        )
    methods = result.auth_methods or []
    kinds = {getattr(method, "type", None) or "agent" for method in methods}
    kinds = {kind if isinstance(kind, str) else "agent" for kind in kinds}
    if not kinds & {"agent", "terminal"}:
        fix = "offer a login of the type agent or terminal"
        findings.add_fault("agent.login", f"the agent offers {', '.join(sorted(kinds)) or 'no login'}", fix)


def _report(findings: Findings, paths: list[str], out: str, *, is_json: bool) -> None:
    if is_json:
        print_json(
            {
                "faults": [{"rule": each.rule, "found": each.found, "fix": each.fix} for each in findings.faults],
                "fixes": findings.fixes,
                "notes": findings.notes,
                "folder": out if paths else None,
                "files": paths,
            }
        )
        return
    for fault in findings.faults:
        print(f"broken  {sanitize_line(str(fault))}", file=sys.stderr)
    for fix in findings.fixes:
        print(f"fixed   {sanitize_line(fix)}")
    for note in findings.notes:
        print(f"note    {sanitize_line(note)}")
    if findings.faults:
        count = len(findings.faults)
        print(f"{count} rule{'' if count == 1 else 's'} broken; nothing is written", file=sys.stderr)
    for path in paths:
        print(f"written {sanitize_line(path)}")
    if paths:
        print("next: start publish.sh without arguments; it says what it needs")
