"""policy.toml: what is wrong is told with the key and the line, all of it at once."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigFault
from dragoman.policy.parse import parse_policy
from dragoman.policy.toml_lines import line_numbers


def faults(text: str, *, is_project: bool = False) -> list[str]:
    """What is wrong with a file."""
    with pytest.raises(ConfigFault) as raised:
        parse_policy(text, "p.toml", is_project=is_project)
    return raised.value.faults


def test_an_empty_file_says_nothing() -> None:
    assert parse_policy("", "p.toml").rules == ()
    assert parse_policy("version = 1", "p.toml").mode is None


def test_the_mode_of_the_user() -> None:
    assert parse_policy('mode = "plan"', "p.toml").mode == "plan"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = ", "p.toml: line 1: invalid value"),
        ('\n\n[[rule]\ndecision = "deny"', "p.toml: line 3: "),
        ("version = 2", "p.toml: line 1: version: this Dragoman reads version 1"),
        ("\nrules = 1", "p.toml: line 2: rules: there is no such setting"),
        ('# x\nmode = "yolo"', "p.toml: line 2: mode: there is no mode 'yolo'"),
        ("rule = 1", "p.toml: line 1: rule: rules are written as [[rule]]"),
        ('[[rule]]\npath = "a"', "p.toml: line 1: rule[1]: decision must be one of allow, ask, deny"),
        ('[[rule]]\ndecision = "maybe"', "p.toml: line 2: rule[1].decision: decision must be"),
        ('[[rule]]\ndecision = "deny"\n\nfile = "a"', "p.toml: line 4: rule[1].file: a rule has no such member"),
        ('[[rule]]\ndecision = "deny"\noperation = "read"', "p.toml: line 3: rule[1].operation: there is no operation"),
        ('[[rule]]\ndecision = "deny"\nkind = ["edit", "x"]', "p.toml: line 3: rule[1].kind: there is no kind 'x'"),
        ('[[rule]]\ndecision = "deny"\nmode = "x"', "p.toml: line 3: rule[1].mode: there is no mode 'x'"),
        ('[[rule]]\ndecision = "deny"\npath = 5', "p.toml: line 3: rule[1].path: must be a text or a list of texts"),
        ('[[rule]]\ndecision = "deny"\npath = []', "p.toml: line 3: rule[1].path: must be a text"),
        ('[[rule]]\ndecision = "deny"\npath = "../a"', "p.toml: line 3: rule[1].path: '../a': '..' cannot be matched"),
        ('[[rule]]\ndecision = "deny"\ncommand = 5', "p.toml: line 3: rule[1].command: must be a text such as"),
        ('[[rule]]\ndecision = "deny"\ncommand = "a; b ;"', "p.toml: line 3: rule[1].command: a pattern is for one"),
        ('[[rule]]\ndecision = "deny"\nreason = 5', "p.toml: line 3: rule[1].reason: must be a text"),
        (
            '[[rule]]\ndecision = "deny"\noperation = "file_read"\ncommand = "x"',
            "p.toml: line 4: rule[1].command: the rule can never match: operation and command do not go together",
        ),
        (
            '[[rule]]\ndecision = "deny"\npath = "x"\ncommand = "x"',
            "p.toml: line 4: rule[1].command: the rule can never match: path and command do not go together",
        ),
        (
            '[[rule]]\ndecision = "deny"\nserver = "x"\ncwd = "x"',
            "p.toml: line 3: rule[1].server: the rule can never match: cwd and server do not go together",
        ),
        (
            '[[rule]]\ndecision = "deny"\nserver = "x"\ncommand = "x"\nurl = "https://x"',
            "p.toml: line 5: rule[1].url: a server has a command or an address; write a rule for each",
        ),
        (
            '[[rule]]\ndecision = "deny"\nurl = "x.org"',
            "p.toml: line 3: rule[1].url: 'x.org': an address has a scheme and a host, as in https://",
        ),
    ],
)
def test_a_fault_names_the_key_and_the_line(text: str, expected: str) -> None:
    found = faults(text)
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_all_faults_are_told_at_once() -> None:
    text = 'x = 1\n[[rule]]\ndecision = "no"\n[[rule]]\ndecision = "deny"\nkind = "y"\n'
    assert [fault.split(": ")[1] for fault in faults(text)] == ["line 1", "line 3", "line 6"]
    with pytest.raises(ConfigFault, match=r"\(and 2 more\)"):
        parse_policy(text, "p.toml")


def test_a_project_cannot_choose_the_mode() -> None:
    assert "only the user's own file can" in faults('mode = "plan"', is_project=True)[0]


def test_the_user_can_lend_every_session_more_folders() -> None:
    assert parse_policy('roots = ["~/notes", "/srv/data"]', "p.toml").roots == ("~/notes", "/srv/data")
    assert parse_policy("", "p.toml").roots == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('roots = ["notes"]', "'notes': say the whole path"),
        ('roots = ["/srv/*"]', "'/srv/*': a folder, not a pattern"),
        ('roots = ["/srv/../etc"]', "'/srv/../etc': '..' cannot be matched"),
        ("roots = 5", "must be a text or a list of texts"),
        ('roots = [""]', "must be a text or a list of texts"),
    ],
)
def test_what_is_no_folder_cannot_be_lent(text: str, why: str) -> None:
    (fault,) = faults(f"\n{text}")
    assert fault.startswith(f"p.toml: line 2: roots: {why}")


def test_a_project_cannot_lend_folders() -> None:
    assert "only the user's own file can" in faults('roots = ["/"]', is_project=True)[0]


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


def test_rules_know_their_line() -> None:
    text = '\n[[rule]]\ndecision = "deny"\n\n[[rule]]\ndecision = "allow"\n'
    assert [rule.line for rule in parse_policy(text, "p.toml").rules] == [2, 5]


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigFault):
        parse_policy(text, "p.toml")
    line_numbers(text)


RULE = '[[rule]]\ndecision = "deny"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#\n" * 40_000, "the file has 80000 characters; a project's may have 65536"),
        (f"#{'x' * 3000}\n", "line 1: the line has 3001 characters; in a project's file it may have 2000"),
        (RULE * 501, "line 1: rule: there are 501 rules; a project's file may have 500"),
        (RULE + f'path = "{"x" * 600}"\n', "the pattern has 600 characters; in a project's file it may have 500"),
        (RULE + f'path = "{"**/" * 17}x"\n', "the pattern has 34 signs like *, ? and [; in a project's file"),
        (RULE + f'command = "rm {"*a" * 40}"\n', "the pattern has 40 signs like *, ? and [; in a project's file"),
        (RULE + f'tool = ["x", "{"*a" * 40}"]\n', "the pattern has 40 signs like *, ? and [; in a project's file"),
        ((RULE + 'path = ["a", "b", "c"]\n') * 400, "there are 1200 patterns; a project's file may have 1000"),
    ],
)
def test_a_project_has_a_file_of_bounded_size_and_the_user_one_of_any(text: str, why: str) -> None:
    (fault,) = faults(text, is_project=True)
    assert why in fault
    assert len(fault) < 200
    assert parse_policy(text, "p.toml") is not None


@pytest.mark.parametrize("text", [f"x = {'[' * 20_000}", f"version = {'9' * 5000}", "mode = []"])
@pytest.mark.parametrize("is_project", [True, False])
def test_a_file_made_to_break_the_reader_is_a_fault_like_any_other(text: str, is_project: bool) -> None:
    assert len(faults("\n".join(text[at : at + 1000] for at in range(0, len(text), 1000)), is_project=is_project)) == 1


def test_lines_are_found_quickly_in_headers_full_of_blanks() -> None:
    assert line_numbers(f"[a{' ' * 200_000}.b]\nx = 1")[("a", "b", "x")] == 2
