"""Commands with several actions."""

from __future__ import annotations

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
