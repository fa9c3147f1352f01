"""The policy page matches the code: its example parses, its mode table is the table."""

from __future__ import annotations

import re
from pathlib import Path

from dragoman.policy.behavior_files import BEHAVIOR_NAMES, BEHAVIOR_PAIRS, BEHAVIOR_SUFFIXES
from dragoman.policy.decide import Policy, decide
from dragoman.policy.modes import MODES
from dragoman.policy.parse import _RULE_KEYS, parse_policy, parse_rule_file
from dragoman.policy.question import OPERATIONS, Question
from dragoman.policy.risky_options import RISKY_OPTIONS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "policy.md").read_text(encoding="utf-8")
EXAMPLE = (DOCS / "policy.toml").read_text(encoding="utf-8")


def test_the_documented_example_is_the_file_and_can_be_parsed() -> None:
    assert f"```toml\n{EXAMPLE}```" in PAGE
    parsed = parse_policy(EXAMPLE, "policy.toml")
    assert (parsed.mode, len(parsed.rules)) == ("default", 10)


def test_the_documented_example_decides_as_described() -> None:
    policy = Policy(files=(parse_rule_file(EXAMPLE, "policy.toml", home="/home/me"),))

    def verdict(operation: str, resource: str, **more: str) -> str:
        question = Question(operation=operation, resource=resource, roots=("/w",), **more)  # type: ignore[arg-type]
        return decide(policy, question).verdict.label

    assert verdict("file_read", "/w/a/.env") == "deny"
    assert verdict("file_read", "/home/me/.ssh/id_ed25519") == "deny"
    assert verdict("file_write", "/w/src/a", agent="coder") == "allow"
    assert verdict("file_write", "/w/src/a", agent="other") == "ask"
    assert verdict("terminal_execute", "git push --force") == "deny"
    assert verdict("terminal_execute", "sudo rm -rf /") == "deny"
    assert verdict("terminal_execute", "git log --oneline") == "allow"
    assert verdict("terminal_execute", "git diff --no-index --output=.profile a b") == "ask"
    assert verdict("terminal_execute", "npm run test:unit") == "allow"
    assert verdict("network_access", "https://pip.readthedocs.io/en") == "allow"
    assert verdict("mcp_start", "docs-server --stdio", server="docs") == "allow"
    assert verdict("mcp_start", "sh -c evil", server="docs") == "ask"
    assert verdict("mcp_start", "https://evil", server="docs", url="https://evil") == "ask"
    assert verdict("mcp_tool", "", server="docs", tool="search_all") == "allow"
    assert verdict("mcp_tool", "", server="docs", tool="delete_all") == "ask"


def test_the_documented_table_of_modes_is_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ((?:allow|ask|deny)(?: \| \w+)*) \|$", PAGE, re.M)
    assert {name: cells.split(" | ") for name, cells in rows} == {
        name: [mode.verdicts[operation].label for operation in OPERATIONS] for name, mode in MODES.items()
    }


def test_every_member_of_a_rule_and_every_operation_is_documented() -> None:
    found = set(re.findall(r"`(\w+)`", PAGE))
    assert {"decision", *_RULE_KEYS} <= found
    assert set(OPERATIONS) <= found


def test_every_file_that_other_programs_obey_is_documented() -> None:
    found = {name.casefold() for name in re.findall(r"`([^`\n]+)`", PAGE[PAGE.index("| read by |") :])}
    names = {name for names in BEHAVIOR_NAMES.values() for name in names} | {"/".join(pair) for pair in BEHAVIOR_PAIRS}
    assert names | {f"*{suffix}" for suffix in BEHAVIOR_SUFFIXES} <= found


def test_every_program_with_risky_options_is_documented() -> None:
    assert set(RISKY_OPTIONS) <= set(re.findall(r"`(\w+)`", PAGE))
