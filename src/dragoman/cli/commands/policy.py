"""`dragoman policy`: check the policy files, explain a decision, trust a project's file.

Shows what policy and config say; decides nothing itself. `--json` is for machines.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.grants import GrantsFile
from dragoman.config.paths import project_policy_path, user_paths
from dragoman.config.policy_files import PolicyLoader
from dragoman.config.private_files import read_bytes
from dragoman.config.trust import TrustedFiles, content_hash
from dragoman.errors import ConfigFault
from dragoman.policy.decide import explain
from dragoman.policy.decision import ASK, DENY, Verdict
from dragoman.policy.modes import MODES
from dragoman.policy.parse import parse_policy
from dragoman.policy.question import FILE_OPERATIONS, OPERATIONS, Operation, Question
from dragoman.policy.rules import RuleFile
from dragoman.policy.shell_commands import canonical_command
from dragoman.policy.url_patterns import address

EXIT_FAULTY = 1
EXIT_CODES: dict[Verdict, int] = {ASK: 3, DENY: 4}

EPILOG = f"""\
  check              read the user's file and the project's, and tell every fault with its line
  explain OP THING   what would be decided about an operation on a file, a command, an address, ...
  trust [DIR]        let the project's file also allow things, as long as its content stays the same

operations: {", ".join(OPERATIONS)}
modes: {", ".join(MODES)}

exit codes:
  0  in order; explain: it would be allowed      3  explain: the user would be asked
  1  a file has faults, or cannot be used        4  explain: it would be denied
  2  wrong usage

examples:
  dragoman policy check
  dragoman policy explain terminal_execute 'git push'
  dragoman policy explain mcp_start 'docs-server --stdio' --server docs
  dragoman policy explain file_write src/main.py --mode plan --json
  dragoman policy trust ."""


def main(arguments: list[str]) -> int:
    """Read the arguments, then do the one thing."""
    parser = Parser(
        "policy",
        "check|explain|trust [WORDS] [OPTIONS]",
        "What agents may do: check the rules, explain a decision, trust a project's rules.",
        EPILOG,
    )
    parser.add_argument("action", choices=("check", "explain", "trust"), help="what to do")
    parser.add_argument("words", nargs="*", metavar="WORDS", help="explain: OPERATION THING; trust: DIR")
    parser.add_argument("--cwd", metavar="DIR", default=".", help="the project (here)")
    parser.add_argument("--mode", choices=tuple(MODES), help="explain: in this policy mode")
    for name in ("agent", "tool", "kind", "server"):
        parser.add_argument(f"--{name}", metavar=name.upper(), default="", help=f"explain: of this {name}")
    parser.add_argument(
        "--folder", metavar="DIR", help="explain: of a command that starts in this folder (the project)"
    )
    parser.add_argument(
        "--env", metavar="NAME", action="append", default=[], help="explain: of a command or server with this variable"
    )
    parser.add_argument("--remove", action="store_true", help="trust: trust it no more")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options, rest = parser.read(arguments)
    options.words += rest
    if not os.path.isdir(options.cwd):
        parser.error(f"--cwd: there is no folder {options.cwd}")
    return {"check": check_policy, "explain": explain_decision, "trust": trust_project}[options.action](parser, options)


def check_policy(parser: Parser, options: Any) -> int:
    """Tell every fault, or how many rules there are."""
    if options.words:
        parser.error("check takes no words")
    root = os.path.realpath(options.cwd)
    try:
        policy = PolicyLoader(user_paths()).load((root,))
    except ConfigFault as fault:
        if options.json:
            _print_json({"faults": fault.faults})
        else:
            for line in fault.faults:
                print(sanitize_line(line), file=sys.stderr)
        return EXIT_FAULTY
    if options.json:
        files = [_rule_file_to_json(file) for file in policy.files]
        warnings = [warning for file in policy.files for warning in file.warnings()]
        told = {"faults": [], "warnings": warnings, "mode": policy.mode, "roots": list(policy.roots), "files": files}
        _print_json(told)
        return 0
    print(f"mode: {policy.mode}")
    for file in policy.files:
        note = "" if file.is_trusted else "; not trusted, so it can only ask and deny"
        print(f"{sanitize_line(file.name)}: {len(file.rules)} rules{note}")
        for warning in file.warnings():
            print(f"  warning: {sanitize_line(warning)}")
    for root in policy.roots:
        print(
            f"lent to every session: {sanitize_line(root)}{'' if os.path.isdir(root) else ' (there is no such folder)'}"
        )
    if not policy.files:
        print(f"no policy files; the user's own would be {user_paths().policy}")
    return 0


def explain_decision(parser: Parser, options: Any) -> int:
    """What would be decided, and what everybody says to it."""
    if not options.words or options.words[0] not in OPERATIONS or len(options.words) > 2:
        parser.error(f"say what and to what, as in: explain file_write README.md; operations: {', '.join(OPERATIONS)}")
    operation, resource = options.words[0], options.words[1] if len(options.words) > 1 else ""
    here, root = user_paths(), os.path.realpath(options.cwd)
    policy = PolicyLoader(here)((root,))
    is_command = operation == Operation.TERMINAL_EXECUTE
    named = os.path.abspath(os.path.join(options.cwd, resource)) if operation in FILE_OPERATIONS and resource else ""
    if operation in FILE_OPERATIONS and resource:
        resource = os.path.realpath(named)
    elif is_command:
        resource = canonical_command(resource)
    question = Question(
        operation=operation,
        resource=resource,
        requested_path=named if named != resource else "",
        agent=options.agent,
        tool=options.tool,
        kind=options.kind,
        server=options.server,
        url=resource if operation == Operation.MCP_START and address(resource) is not None else "",
        cwd=os.path.realpath(os.path.join(options.cwd, options.folder or ".")) if is_command else "",
        env=tuple(sorted(options.env)),
        roots=(root,),
        mode=options.mode or policy.mode,
    )
    import time

    weighed = explain(policy, question, GrantsFile(here.grants).current(), now=time.time())
    decision = weighed.decision
    if options.json:
        _print_json(
            {
                "decision": decision.verdict.label,
                "source": decision.source,
                "reason": decision.reason,
                "operation": operation,
                "resource": resource,
                "mode": question.mode,
                "considered": [
                    {"decision": each.verdict.label, "source": each.source, "reason": each.reason}
                    for each in weighed.considered
                ],
            }
        )
    else:
        print(f"{decision.verdict.label}: {sanitize_line(decision.reason)}")
        for each in weighed.considered:
            print(f"  {each.verdict.label:5}  {sanitize_line(each.reason)}")
    return EXIT_CODES.get(decision.verdict, 0)


def trust_project(parser: Parser, options: Any) -> int:
    """Trust the content that a project's file has now, or no more."""
    if len(options.words) > 1:
        parser.error("trust one project at a time")
    root = os.path.realpath(options.words[0] if options.words else options.cwd)
    file, trust = project_policy_path(root), TrustedFiles(user_paths().trust)
    if options.remove:
        was = trust.revoke(file)
        _print_result(options, {"file": file, "trusted": False}, f"{file} is {'no longer' if was else 'not'} trusted")
        return 0
    try:
        data = read_bytes(file)
    except OSError as error:
        raise ConfigFault([f"{file}: {error.strerror or error}"]) from None
    if data is None:
        parser.error(f"there is no {file}")
    # What cannot be read cannot be trusted.
    rules = parse_policy(data.decode("utf-8-sig", "replace"), file, is_project=True).rules
    trust.trust(file, data)
    allowing = sum(rule.verdict not in EXIT_CODES for rule in rules)
    words = f"{file} is trusted as it is now: {len(rules)} rules, {allowing} of them allow ({content_hash(data)[:12]})"
    _print_result(options, {"file": file, "trusted": True, "rules": len(rules), "hash": content_hash(data)}, words)
    return 0


def _rule_file_to_json(file: RuleFile) -> dict[str, Any]:
    rules = [{"decision": rule.verdict.label, "line": rule.line, "reason": rule.reason} for rule in file.rules]
    return {"name": file.name, "trusted": file.is_trusted, "rules": rules}


def _print_result(options: Any, json_value: dict[str, Any], text: str) -> None:
    if options.json:
        _print_json(json_value)
    else:
        print(sanitize_line(text))


def _print_json(value: Any) -> None:
    import json

    print(json.dumps(value, indent=1))
