"""`dragoman policy`: check the policy files, explain a decision, trust a project's file."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from dragoman.cli import exit_codes
from dragoman.cli.parser import Parser, unknown_word
from dragoman.cli.subcommands import Action, CommandGroup
from dragoman.cli.ui.format import print_json, report
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.config.grants import GrantsFile
from dragoman.config.paths import project_policy_path, user_paths
from dragoman.config.policy_files import PolicyLoader, TrustedFiles, content_hash
from dragoman.config.private_files import read_bytes
from dragoman.errors import ConfigFault
from dragoman.policy.decide import explain
from dragoman.policy.decision import ASK, DENY, Decision, Verdict
from dragoman.policy.modes import MODES, mode_summary
from dragoman.policy.parse import parse_policy
from dragoman.policy.patterns import parse_url
from dragoman.policy.question import FILE_OPERATIONS, OPERATIONS, Operation, Question
from dragoman.policy.rules import RuleFile
from dragoman.policy.shell_commands import canonical_command

EXIT_CODES: dict[Verdict, int] = {ASK: 3, DENY: 4}

EPILOG = f"""\
operations:
  {", ".join(OPERATIONS[:5])},
  {", ".join(OPERATIONS[5:])}
modes:
  {", ".join(MODES)}

exit codes:
  0  no errors; explain: it would be allowed
  1  a file has errors, or cannot be used
  2  wrong usage
  3  explain: you would be asked
  4  explain: it would be denied

examples:
  dragoman policy show
  dragoman policy check
  dragoman policy check draft.toml
  dragoman policy explain terminal_execute 'git push'
  dragoman policy explain mcp_start 'docs-server --stdio' --server docs
  dragoman policy explain file_write src/main.py --mode plan --json
  dragoman policy trust ."""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then run the action."""
    parser = CommandGroup(
        "policy",
        "[ACTION] [ARGUMENTS] [OPTIONS]",
        "Show and check policy rules, explain a decision, trust a project's rules.",
        _ACTIONS,
        EPILOG,
        default="show",
    )
    parser.add_argument(
        "arguments", nargs="*", metavar="ARGUMENTS", help="explain: OPERATION THING; check: FILE; trust: DIR"
    )
    parser.add_value("--cwd", "DIR", "the project folder (the current one)", default=".")
    parser.add_argument("--mode", choices=tuple(MODES), help="show, explain: in this policy mode")
    for name in ("agent", "tool", "kind", "server"):
        parser.add_argument(f"--{name}", metavar=name.upper(), default="", help=f"explain: for this {name}")
    parser.add_value("--folder", "DIR", "explain: folder in which a command starts (the project)")
    parser.add_value("--env", "NAME", "explain: environment variable of a command or server", repeated=True)
    parser.add_value("--policy", "FILE", "show, explain: with this file in place of yours")
    parser.add_flag("--remove", "trust: stop trusting the file")
    parser.add_flag("--json", "print JSON")
    options, rest = parser.read(arguments)
    options.arguments += rest
    if not os.path.isdir(options.cwd):
        parser.error(f"--cwd: there is no folder {options.cwd}")
    return parser.run_action(options)


def check_policy(parser: Parser, options: argparse.Namespace) -> int:
    """Print every error, or the number of rules."""
    if len(options.arguments) > 1:
        parser.error("check takes one file; without it, your file and that of the project are checked")
    file = options.arguments[0] if options.arguments else options.policy
    roots = () if options.arguments else (os.path.realpath(options.cwd),)
    try:
        policy = PolicyLoader(user_paths(), user_file=file).load(roots)
    except ConfigFault as fault:
        if options.json:
            print_json({"faults": fault.faults})
        else:
            for line in fault.faults:
                print(sanitize_line(line), file=sys.stderr)
        return exit_codes.FAILED
    lines = [f"mode: {policy.mode}"]
    for file in policy.files:
        note = "" if file.is_trusted else "; not trusted, so it can only ask and deny"
        lines.append(f"{file.name}: {len(file.rules)} rules{note}")
        lines += [f"  warning: {warning}" for warning in file.warnings()]
    for root in policy.roots:
        note = "" if os.path.isdir(root) else " (there is no such folder)"
        lines.append(f"available in every session: {root}{note}")
    if not policy.files:
        lines.append(f"no policy files; yours would be {user_paths().policy}")
    files = [_rule_file_to_json(file) for file in policy.files]
    warnings = [warning for file in policy.files for warning in file.warnings()]
    result = {"faults": [], "warnings": warnings, "mode": policy.mode, "roots": list(policy.roots), "files": files}
    return report(options, result, lines)


def show_policy(parser: Parser, options: argparse.Namespace) -> int:
    """Print the mode and the rules that apply in this folder, as they are written in the files."""
    if options.arguments:
        parser.error("show takes no arguments; the folder is given with --cwd")
    policy = PolicyLoader(user_paths(), user_file=options.policy).load((os.path.realpath(options.cwd),))
    mode = options.mode or policy.mode
    lines = [f"mode {mode}, where no rule and no grant decides: {mode_summary(mode)}"]
    for file in policy.files:
        lines += ["", f"{file.name}{'' if file.is_trusted else ' (not trusted, so it can only ask and deny)'}:"]
        text = (read_bytes(file.name) or b"").decode("utf-8-sig", "replace") if os.path.isfile(file.name) else ""
        lines += [f"  {line}" for line in text.strip().split("\n")]
    if not policy.files:
        lines.append(f"no policy files; yours would be {user_paths().policy}")
    files = [_rule_file_to_json(file) for file in policy.files]
    verdicts = {operation: verdict.label for operation, verdict in MODES[mode].verdicts.items()}
    return report(options, {"mode": mode, "verdicts": verdicts, "files": files}, lines)


def explain_decision(parser: Parser, options: argparse.Namespace) -> int:
    """Print the decision and everything that was considered."""
    if options.arguments and options.arguments[0] not in OPERATIONS:
        parser.error(unknown_word("operation", options.arguments[0], OPERATIONS))
    if not options.arguments or len(options.arguments) > 2:
        parser.error(
            f"give an operation and an object, as in: explain file_write README.md; operations: {', '.join(OPERATIONS)}"
        )
    operation, resource = options.arguments[0], options.arguments[1] if len(options.arguments) > 1 else ""
    paths, root = user_paths(), os.path.realpath(options.cwd)
    loader = PolicyLoader(paths, user_file=options.policy)
    policy = loader((root,)) if options.policy is None else loader.load((root,))
    is_command = operation == Operation.TERMINAL_EXECUTE
    named = os.path.abspath(os.path.join(options.cwd, resource)) if operation in FILE_OPERATIONS and resource else ""
    if operation in FILE_OPERATIONS and resource:
        resource = os.path.realpath(named)
    line = resource if is_command else ""
    if is_command:
        resource = canonical_command(line)
    question = Question(
        operation=operation,
        resource=resource,
        requested_path=named if named != resource else "",
        requested_line=line if line != resource else "",
        agent=options.agent,
        tool=options.tool,
        kind=options.kind,
        server=options.server,
        url=resource if operation == Operation.MCP_START and parse_url(resource) is not None else "",
        cwd=os.path.realpath(os.path.join(options.cwd, options.folder or ".")) if is_command else "",
        env=tuple(sorted(options.env)),
        roots=(root,),
        mode=options.mode or policy.mode,
    )
    import time

    explanation = explain(policy, question, GrantsFile(paths.grants).current(), now=time.time())
    decision = explanation.decision
    result = _decision_to_json(decision) | {"operation": operation, "resource": resource, "mode": question.mode}
    result["considered"] = [_decision_to_json(each) for each in explanation.considered]
    lines = [f"{decision.verdict.label}: {decision.reason}"]
    lines += [f"  {each.verdict.label:5}  {each.reason}" for each in explanation.considered]
    return report(options, result, lines, EXIT_CODES.get(decision.verdict, exit_codes.OK))


def _decision_to_json(decision: Decision) -> dict[str, Any]:
    return {"decision": decision.verdict.label, "source": decision.source, "reason": decision.reason}


def trust_project(parser: Parser, options: argparse.Namespace) -> int:
    """Trust the current content of a project's file, or stop trusting it."""
    if len(options.arguments) > 1:
        parser.error("trust takes one project")
    root = os.path.realpath(options.arguments[0] if options.arguments else options.cwd)
    file, trust = project_policy_path(root), TrustedFiles(user_paths().trust)
    if options.remove:
        was_trusted = trust.revoke(file)
        text = f"{file} is {'no longer' if was_trusted else 'not'} trusted"
        return report(options, {"file": file, "trusted": False}, text)
    try:
        data = read_bytes(file)
    except OSError as error:
        raise ConfigFault([f"{file}: {error.strerror or error}"]) from None
    if data is None:
        parser.error(f"there is no {file}")
    # A file with errors cannot be trusted.
    rules = parse_policy(data.decode("utf-8-sig", "replace"), file, is_project=True).rules
    trust.trust(file, data)
    allowing = sum(rule.verdict not in EXIT_CODES for rule in rules)
    counts = f"{len(rules)} rules, {allowing} of them allow"
    text = f"{file} is trusted with its current content: {counts} ({content_hash(data)[:12]})"
    return report(options, {"file": file, "trusted": True, "rules": len(rules), "hash": content_hash(data)}, text)


def _rule_file_to_json(file: RuleFile) -> dict[str, Any]:
    rules = [{"decision": rule.verdict.label, "line": rule.line, "reason": rule.reason} for rule in file.rules]
    return {"name": file.name, "trusted": file.is_trusted, "rules": rules}


_ACTIONS = {
    "show": Action(show_policy, "show", "show the mode and the rules that apply in this folder (default)"),
    "check": Action(
        check_policy, "check [FILE]", "check your policy file and the project's, or FILE; print every error"
    ),
    "explain": Action(
        explain_decision, "explain OP THING", "explain the decision about an operation on a file, a command, a URL, ..."
    ),
    "trust": Action(
        trust_project,
        "trust [DIR]",
        "let the project's policy file also allow things, until the file changes",
    ),
}
