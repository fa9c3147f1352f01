"""Commands with several actions."""

from __future__ import annotations

from dragoman.cli.parser import fit_help
from dragoman.cli.subcommands import Action, CommandGroup


def test_an_action_with_options_of_its_own_can_stand_beside_actions_that_share_them() -> None:
    group = CommandGroup(
        "toys",
        "[ACTION]",
        "Toys.",
        {
            "list": Action(lambda parser, options: 7, "list", "share the options"),
            "own": Action("sessions.read:run_list", "own", "have other options"),
        },
        "",
        default="list",
    )
    assert group.run_own([]) is None
    assert group.run_own(["list"]) is None
    assert group.run_own(["--json"]) is None
    assert group.run_action(group.read_options([])) == 7
    assert group.run_own(["own", "--names"]) == 0


def test_help_fits_a_narrow_terminal() -> None:
    text = """usage: dragoman x

A paragraph that is written for a terminal of eighty columns or more, and which
goes on here.

actions:
  list          list everything that there is, the newest first

examples:
  dragoman x --with many --options that --are --one 'command line' -- my-agent"""
    assert fit_help(text, 80) == text
    lines = fit_help(text, 40).split("\n")
    assert "A paragraph that is written for a" in lines
    assert "                first" in lines
    assert all(len(line) < 40 for line in lines[:-1])
    assert lines[-1] == text.split("\n")[-1]  # a command is copied as one line
