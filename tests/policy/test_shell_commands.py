"""Command lines are split as a shell does, or reported as opaque."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.policy.shell_commands import (
    CommandPattern,
    behavior_variables,
    canonical_command,
    parse_command_line,
    runs_from_here,
)


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("git status", [("git", "status")]),
        ("  git   status  ", [("git", "status")]),
        ("git status\n", [("git", "status")]),
        ("cd a && npm test", [("cd", "a"), ("npm", "test")]),
        ("a;b|c||d&e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("echo 'a; rm b'", [("echo", "a; rm b")]),
        ('echo "a && b"', [("echo", "a && b")]),
        ("echo ';' rm", [("echo", ";", "rm")]),
        (r"echo a\;b", [("echo", "a;b")]),
        ("echo 'it'\"'\"'s'", [("echo", "it's")]),
        ('echo ""', [("echo", "")]),
        ("sh -c 'git status'", [("git", "status")]),
        ("/bin/bash -lc 'a && b'", [("a",), ("b",)]),
        ("sh -c \"sh -c 'git status'\"", [("git", "status")]),
        (r'echo "a\"b\\c\d"', [("echo", 'a"b\\c\\d')]),
    ],
)
def test_lines_are_split_into_commands(line: str, commands: list[tuple[str, ...]]) -> None:
    apart = parse_command_line(line)
    assert list(apart.commands) == commands
    assert not apart.is_opaque


@pytest.mark.parametrize(
    "line",
    [
        "echo $(rm -rf x)",
        "echo `rm -rf x`",
        'echo "$(rm -rf x)"',
        "echo $HOME",
        "git status > /etc/passwd",
        "cat < a",
        "(git status)",
        "{ git status; }",
        "git status\nrm -rf x",
        "git status \\\n rm",
        "git status # rm",
        "echo 'unfinished",
        'echo "unfinished',
        "if true; then rm x; fi",
        "! git status",
        "sh -c 'echo $(rm x)'",
        "",
        ";",
        "echo \\",
        "git status\0rm",
    ],
)
def test_opaque_lines_are_recognized(line: str) -> None:
    assert parse_command_line(line).is_opaque


@pytest.mark.parametrize(("line", "is_wild"), [("rm *", True), ("rm '*'", False), ("ls ~", True), (r"ls \*", False)])
def test_shell_expansions_are_recognized(line: str, is_wild: bool) -> None:
    assert parse_command_line(line).is_wild is is_wild


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_words_that_were_quoted_come_back_exactly(words: list[str]) -> None:
    line = shlex.join(words)
    apart = parse_command_line(line)
    if not apart.is_opaque and not (len(words) == 3 and words[1] in ("-c", "-lc")):
        assert list(apart.commands) == [tuple(words)]


@given(st.text())
def test_any_text_can_be_parsed(line: str) -> None:
    parsed = parse_command_line(line)
    assert parsed.is_opaque or all(words for words in parsed.commands)
    assert canonical_command(canonical_command(line)) == canonical_command(line)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("npm test", "sh -c 'npm test'"),
        ("npm  test ", "npm test"),
        ("echo 'a b'", 'echo "a b"'),
        ("bash -lc 'a && b'", "a && b"),
    ],
)
def test_the_same_command_has_one_canonical_form(one: str, other: str) -> None:
    assert canonical_command(one) == canonical_command(other)


@pytest.mark.parametrize(("one", "other"), [("rm *", "rm '*'"), ("echo $A", "echo '$A'"), ("a; b", "a ';' b")])
def test_different_commands_have_different_canonical_forms(one: str, other: str) -> None:
    assert canonical_command(one) != canonical_command(other)


@pytest.mark.parametrize("shell", ["bash", "sh", "/bin/sh", "/usr/bin/zsh", "/usr/local/bin/bash"])
def test_a_shell_of_the_system_is_not_a_part_of_the_command(shell: str) -> None:
    line = f"{shell} -c 'git status'"
    assert parse_command_line(line).commands == (("git", "status"),)
    assert canonical_command(line) == "git status"
    assert not runs_from_here(line)


@pytest.mark.parametrize(
    "program",
    [
        "./bash",
        "tools/bash",
        "./tools/sh",
        "../zsh",
        "/w/tools/bash",
        "/bash",
        "/usr/bin/../../w/bash",
        "/usr/bin/x/sh",
    ],
)
def test_a_program_elsewhere_that_is_named_like_a_shell_is_the_command(program: str) -> None:
    line = f"{program} -c 'git status'"
    assert parse_command_line(line).commands == ((program, "-c", "git status"),)
    assert canonical_command(line) == line
    assert canonical_command(f"bash -c {shlex.quote(line)}") == line
    assert runs_from_here(line) is not program.startswith("/")
    assert CommandPattern.parse(["git", "status"]).may_match((program, "-c", "git status"))


@pytest.mark.parametrize(
    ("pattern", "words", "allowed"),
    [
        (["git", "status"], "git status", True),
        (["git", "status"], "git status --short", True),
        (["git", "status"], "git stash", False),
        (["git"], "gitk", False),
        (["git"], "mygit", False),
        (["git"], "/tmp/git status", False),
        (["git"], "sudo git status", False),
        (["git", "*"], "git status", False),
        ("git status", "git status", True),
        ("git status", "git status --short", False),
        ("git *", "git status --short", True),
        ("git *", "git", True),
        ("git log *", "git status", False),
        ("npm run test:*", "npm run test:unit", True),
        ("npm run test:*", "npm run test:unit --x", False),
        ("*", "anything at all", True),
        ("rm -rf ?", "rm -rf a", True),
    ],
)
def test_patterns_are_compared_word_by_word(pattern: str | list[str], words: str, allowed: bool) -> None:
    assert CommandPattern.parse(pattern).matches(tuple(words.split())) is allowed


def test_words_that_a_shell_expands_do_not_match_a_pattern_with_a_fixed_number_of_words() -> None:
    assert not CommandPattern.parse("rm ?").matches(("rm", "*"), is_wild=True)
    assert CommandPattern.parse(["ls"]).matches(("ls", "*"), is_wild=True)


@pytest.mark.parametrize(
    "words",
    [
        "rm x",
        "/bin/rm x",
        "sudo rm x",
        "sudo -u root rm x",
        "A=1 B=2 rm x",
        "env A=1 rm x",
        "timeout 5 rm x",
        "xargs rm",
        "bash -ec 'rm x'",
        "bash -o pipefail -c 'cd a && rm x'",
        "env -S 'rm x'",
        "sudo bash -xc 'rm x'",
        "sudo sh -ec \"bash -ec 'rm x'\"",
        "eval 'rm x'",
        "then rm x",
        "! rm x",
        "do A=1 rm x",
        "strace -f rm x",
        "flock /tmp/lock rm x",
        "flock /tmp/lock -c 'rm x'",
        "ionice -c 3 rm x",
        "unshare -r rm x",
        "taskset 1 rm x",
        "chrt -i 0 rm x",
        "parallel rm ::: x",
        "parallel 'rm {}' ::: x",
        "coproc rm x",
        "su -c 'rm x'",
        "su root --command='rm x'",
        "sudo su --command=rm",
        "script -c 'rm x' /dev/null",
        "script '-crm x' /dev/null",
        "trap 'rm x' EXIT",
        "trap rm EXIT",
        "ksh -c 'rm x'",
        "ash -c rm",
        "fish -c 'rm x'",
        "fish --command='rm x'",
        "/usr/bin/ksh -c rm",
        "ssh host rm x",
        "ssh -t host 'cd a && rm x'",
        "ssh '-oProxyCommand=rm x' host",
        "systemd-run --user rm x",
        "nsenter -t 1 rm x",
        "find . -name y -exec rm {} +",
        "fd y -x rm",
    ],
)
def test_a_denied_command_is_found_inside_wrappers(words: str) -> None:
    assert CommandPattern.parse(["rm"]).may_match(tuple(shlex.split(words)))


@pytest.mark.parametrize("words", ["echo rm", "grep rm x", "rmdir x", "A=rm", "find . -name rm", "fd rm"])
def test_similar_arguments_do_not_match(words: str) -> None:
    assert not CommandPattern.parse(["rm"]).may_match(tuple(words.split()))


@pytest.mark.parametrize("pattern", ["", "  ", [], [""], "a && b", "'x"])
def test_invalid_command_patterns_are_rejected(pattern: str | list[str]) -> None:
    with pytest.raises(ValueError):
        CommandPattern.parse(pattern)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PAGER", "cat"),
        ("PAGER", ""),
        ("GIT_PAGER", "less"),
        ("MANPAGER", "cat"),
        ("TERM", "dumb"),
        ("TERM", "xterm-256color"),
        ("NO_COLOR", "1"),
        ("CI", "true"),
        ("LANG", "de_DE.UTF-8@euro"),
        ("LC_ALL", "C"),
        ("COLUMNS", "120"),
        ("PYTHONUNBUFFERED", "1"),
    ],
)
def test_variables_that_agents_set_for_plain_output_change_nothing_else(name: str, value: str) -> None:
    assert behavior_variables({name: value}) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PAGER", "touch x"),
        ("PAGER", "./less"),
        ("PAGER", "cat\n"),
        ("GIT_PAGER", "less; id"),
        ("MANPAGER", "/tmp/cat"),
        ("GH_PAGER", "sh"),
        ("TERM", "../x"),
        ("TERM", "$(id)"),
        ("LANG", "/tmp/x"),
        ("LC_EVIL", "C"),
        ("COLUMNS", "a[$(id)]"),
        ("LESSOPEN", "|id %s"),
        ("LD_PRELOAD", ""),
        ("PATH", "/usr/bin"),
        ("GIT_SSH_COMMAND", "ssh"),
        ("GIT_EXTERNAL_DIFF", "cat"),
        ("pager", "cat"),
        ("", ""),
    ],
)
def test_every_other_variable_or_value_can_change_what_a_command_does(name: str, value: str) -> None:
    assert behavior_variables({"TERM": "dumb", name: value}) == (name,)
