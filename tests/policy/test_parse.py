"""Errors in policy.toml are reported with key and line, all at once."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigFault
from dragoman.policy.parse import parse_policy
from dragoman.policy.toml_lines import line_numbers


def faults(text: str, *, is_project: bool = False) -> list[str]:
    """Return the errors of a file."""
    with pytest.raises(ConfigFault) as raised:
        parse_policy(text, "p.toml", is_project=is_project)
    return raised.value.faults


def test_an_empty_file_has_no_rules() -> None:
    assert parse_policy("", "p.toml").rules == ()
    assert parse_policy("version = 1", "p.toml").mode is None


def test_the_mode_of_the_user() -> None:
    assert parse_policy('mode = "plan"', "p.toml").mode == "plan"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = ", "p.toml: line 1: invalid value"),
        ('\n\n[[rule]\ndecision = "deny"', "p.toml: line 3: "),
        ("version = 2", "p.toml: line 1: version: unsupported version; this Dragoman reads version 1"),
        ("\nrules = 1", "p.toml: line 2: rules: unknown setting"),
        ('# x\nmode = "yolo"', "p.toml: line 2: mode: unknown mode 'yolo'"),
        ("rule = 1", "p.toml: line 1: rule: write each rule as a [[rule]] table"),
        ('[[rule]]\npath = "a"', "p.toml: line 1: rule[1]: decision must be one of allow, ask, deny"),
        ('[[rule]]\ndecision = "maybe"', "p.toml: line 2: rule[1].decision: decision must be"),
        ('[[rule]]\ndecision = "deny"\n\nfile = "a"', "p.toml: line 4: rule[1].file: unknown key; a rule may have"),
        ('[[rule]]\ndecision = "deny"\noperation = "read"', "p.toml: line 3: rule[1].operation: unknown operation"),
        ('[[rule]]\ndecision = "deny"\nkind = ["edit", "x"]', "p.toml: line 3: rule[1].kind: unknown kind 'x'"),
        ('[[rule]]\ndecision = "deny"\nmode = "x"', "p.toml: line 3: rule[1].mode: unknown mode 'x'"),
        (
            '[[rule]]\ndecision = "deny"\npath = 5',
            "p.toml: line 3: rule[1].path: must be a non-empty string or a list of",
        ),
        ('[[rule]]\ndecision = "deny"\npath = []', "p.toml: line 3: rule[1].path: must be a non-empty string"),
        ('[[rule]]\ndecision = "deny"\npath = "../a"', "p.toml: line 3: rule[1].path: '../a': '..' never matches"),
        ('[[rule]]\ndecision = "deny"\ncommand = 5', "p.toml: line 3: rule[1].command: must be a string such as"),
        (
            '[[rule]]\ndecision = "deny"\ncommand = "a; b ;"',
            "p.toml: line 3: rule[1].command: a pattern matches one",
        ),
        ('[[rule]]\ndecision = "deny"\nreason = 5', "p.toml: line 3: rule[1].reason: must be a string"),
        (
            '[[rule]]\ndecision = "deny"\noperation = "file_read"\ncommand = "x"',
            "p.toml: line 4: rule[1].command: the rule can never match: "
            "no operation satisfies operation and command together",
        ),
        (
            '[[rule]]\ndecision = "deny"\npath = "x"\ncommand = "x"',
            "p.toml: line 4: rule[1].command: the rule can never match: "
            "no operation satisfies path and command together",
        ),
        (
            '[[rule]]\ndecision = "deny"\nserver = "x"\ncwd = "x"',
            "p.toml: line 3: rule[1].server: the rule can never match: no operation satisfies cwd and server together",
        ),
        (
            '[[rule]]\ndecision = "deny"\nserver = "x"\ncommand = "x"\nurl = "https://x"',
            "p.toml: line 5: rule[1].url: a server has either a command or a URL; write one rule for each",
        ),
        (
            '[[rule]]\ndecision = "deny"\nurl = "x.org"',
            "p.toml: line 3: rule[1].url: 'x.org': write a URL with a scheme and a host, as in https://",
        ),
    ],
)
def test_an_error_names_the_key_and_the_line(text: str, expected: str) -> None:
    found = faults(text)
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_all_errors_are_reported_at_once() -> None:
    text = 'x = 1\n[[rule]]\ndecision = "no"\n[[rule]]\ndecision = "deny"\nkind = "y"\n'
    assert [fault.split(": ")[1] for fault in faults(text)] == ["line 1", "line 3", "line 6"]
    with pytest.raises(ConfigFault, match=r"\(and 2 more\)"):
        parse_policy(text, "p.toml")


def test_a_project_cannot_choose_the_mode() -> None:
    assert "your own policy file" in faults('mode = "plan"', is_project=True)[0]


def test_the_user_can_add_folders_to_every_session() -> None:
    assert parse_policy('roots = ["~/notes", "/srv/data"]', "p.toml").roots == ("~/notes", "/srv/data")
    assert parse_policy("", "p.toml").roots == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('roots = ["notes"]', "'notes': write the full path"),
        ('roots = ["/srv/*"]', "'/srv/*': write a folder without wildcards"),
        ('roots = ["/srv/../etc"]', "'/srv/../etc': '..' never matches"),
        ("roots = 5", "must be a non-empty string or a list of"),
        ('roots = [""]', "must be a non-empty string or a list of"),
    ],
)
def test_roots_must_be_full_paths_without_wildcards(text: str, why: str) -> None:
    (fault,) = faults(f"\n{text}")
    assert fault.startswith(f"p.toml: line 2: roots: {why}")


def test_a_project_cannot_add_folders() -> None:
    assert "your own policy file" in faults('roots = ["/"]', is_project=True)[0]


def test_lines_are_found_past_strings_that_look_like_tables() -> None:
    text = (
        'reason = """\n[[rule]]\n# not a comment\n"""\n'  # 1-4
        "a = [\n  '[[rule]]', # ]\n  \"]\",\n]\n"  # 5-8
        "[[rule]]\ndecision = 'deny' # [[rule]]\n"  # 9-10
        "[[rule]]\n'decision' = 'deny'\n\"path\" = 'x'\n"  # 11-13
    )
    found = line_numbers(text)
    assert found[("rule", 0)] == 9
    assert found[("rule", 0, "decision")] == 10
    assert found[("rule", 1)] == 11
    assert found[("rule", 1, "decision")] == 12
    assert found[("rule", 1, "path")] == 13
    assert ("rule", 2) not in found


def test_rules_have_their_line_number() -> None:
    text = '\n[[rule]]\ndecision = "deny"\n\n[[rule]]\ndecision = "allow"\n'
    assert [rule.line for rule in parse_policy(text, "p.toml").rules] == [2, 5]


@given(st.text())
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with suppress(ConfigFault):
        parse_policy(text, "p.toml")
    assert all(number >= 1 for number in line_numbers(text).values())


RULE = '[[rule]]\ndecision = "deny"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#\n" * 40_000, "the file has 80000 characters; a project's file may have at most 65536"),
        (f"#{'x' * 3000}\n", "line 1: the line has 3001 characters; a project's file may have at most 2000"),
        (RULE * 501, "line 1: rule: there are 501 rules; a project's file may have at most 500"),
        (RULE + f'path = "{"x" * 600}"\n', "the pattern has 600 characters; a project's file may have at most 500"),
        (RULE + f'path = "{"**/" * 17}x"\n', "the pattern has 34 wildcards (*, ?, [); a project's file"),
        (RULE + f'command = "rm {"*a" * 40}"\n', "the pattern has 40 wildcards (*, ?, [); a project's file"),
        (RULE + f'tool = ["x", "{"*a" * 40}"]\n', "the pattern has 40 wildcards (*, ?, [); a project's file"),
        ((RULE + 'path = ["a", "b", "c"]\n') * 400, "there are 1200 patterns; a project's file may have at most 1000"),
    ],
)
def test_only_a_projects_file_has_size_limits(text: str, why: str) -> None:
    (fault,) = faults(text, is_project=True)
    assert why in fault
    assert len(fault) < 200
    assert parse_policy(text, "p.toml") is not None


@pytest.mark.parametrize("text", [f"x = {'[' * 20_000}", f"version = {'9' * 5000}", "mode = []"])
@pytest.mark.parametrize("is_project", [True, False])
def test_a_hostile_file_is_reported_as_a_config_fault(text: str, is_project: bool) -> None:
    assert len(faults("\n".join(text[at : at + 1000] for at in range(0, len(text), 1000)), is_project=is_project)) == 1


def test_lines_are_found_quickly_in_headers_full_of_blanks() -> None:
    assert line_numbers(f"[a{' ' * 200_000}.b]\nx = 1")[("a", "b", "x")] == 2
