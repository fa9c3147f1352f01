"""A grant covers one resource, within its scope, until it expires."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.policy.decide import Policy, decide
from dragoman.policy.decision import ALLOW, ASK, DENY, Verdict
from dragoman.policy.grants import SCOPES, SESSION_GRANT_LIFETIME, Grant, build_grant, decide_by_grants
from dragoman.policy.parse import parse_rule_file
from dragoman.policy.question import Question

NOW = 1000.0


def question(operation: str = "file_write", resource: str = "/w/a", **more: Any) -> Question:
    """Return a question of session s in /w."""
    values: dict[str, Any] = {"agent": "coder", "session": "s", "roots": ("/w",), **more}
    return Question(operation=operation, resource=resource, **values)


def grant(asked: Question, scope: str = "always", verdict: Verdict = ALLOW, **more: Any) -> Grant:
    """Return the grant for a question."""
    made = build_grant(asked, verdict, scope, id="g1", now=NOW, run="r", **more)
    assert made is not None
    return made


def covered(asked: Question, given: Grant, now: float = NOW, run: str = "r") -> bool:
    """Return whether a grant decides a question."""
    return decide_by_grants([given], asked, now, run) is not None


@pytest.mark.parametrize(
    ("scope", "same_session", "same_workspace", "elsewhere"),
    [
        ("once", True, False, False),
        ("session", True, False, False),
        ("workspace", True, True, False),
        ("always", True, True, True),
    ],
)
def test_each_scope_covers_its_own_sessions(
    scope: str, same_session: bool, same_workspace: bool, elsewhere: bool
) -> None:
    given = grant(question(), scope)
    assert covered(question(), given) is same_session
    assert covered(question(session="t"), given) is same_workspace
    assert covered(question(session="t", roots=("/v",)), given) is elsewhere


@pytest.mark.parametrize(
    "other",
    [
        {"resource": "/w/b"},
        {"resource": ""},
        {"operation": "file_delete"},
        {"operation": "file_read"},
        {"agent": "other"},
    ],
)
def test_a_grant_is_for_one_thing_only(other: dict[str, Any]) -> None:
    assert not covered(question(**other), grant(question()))


def test_a_grant_for_a_tool_is_for_that_tool_of_that_server() -> None:
    tool = {"operation": "mcp_tool", "server": "github", "tool": "create_issue"}
    given = grant(question(resource="", title="Create issue 1", **tool))
    assert covered(question(resource="", title="Create issue 2", **tool), given)
    assert not covered(question(resource="", **{**tool, "tool": "delete_repository"}), given)
    assert not covered(question(resource="", **{**tool, "server": "gitlab"}), given)


def test_a_grant_for_starting_a_server_is_for_its_command_too() -> None:
    given = grant(question("mcp_start", "npx good", server="files"))
    assert not covered(question("mcp_start", "npx evil", server="files"), given)


def test_without_a_resource_tool_and_title_identify_the_grant() -> None:
    given = grant(question("other", "", title="Ping"))
    assert covered(question("other", "", title="Ping"), given)
    assert not covered(question("other", "", title="Format the disk"), given)


def test_a_grant_for_a_session_is_not_for_a_later_session_of_the_same_id() -> None:
    given = grant(question(), "session")
    assert covered(question(), given)
    assert not covered(question(), given, run="another run")
    assert covered(question(), grant(question(), "workspace"), run="another run")


def test_grants_expire() -> None:
    given = grant(question(), lifetime=60.0)
    assert covered(question(), given, NOW + 59.9)
    assert not covered(question(), given, NOW + 60.0)
    assert grant(question(), "session").expires == NOW + SESSION_GRANT_LIFETIME
    assert grant(question(), "always").expires is None


def test_a_question_without_identification_makes_no_grant() -> None:
    assert build_grant(question("other", ""), ALLOW, "always", id="g", now=NOW) is None
    assert build_grant(question(env=("LD_PRELOAD",)), ALLOW, "always", id="g", now=NOW) is None
    assert build_grant(question(), ASK, "always", id="g", now=NOW) is None
    assert build_grant(question(), ALLOW, "forever", id="g", now=NOW) is None


def test_a_workspace_grant_without_a_workspace_becomes_a_session_grant() -> None:
    assert grant(question(roots=()), "workspace").scope == "session"


def test_a_command_with_an_environment_of_its_own_is_not_covered() -> None:
    given = grant(question("terminal_execute", "make"))
    assert not covered(question("terminal_execute", "make", env=("CC",)), given)


def command(line: str, cwd: str = "/w", **more: Any) -> Question:
    """Return a question about a command that starts in a folder."""
    return question("terminal_execute", line, cwd=cwd, **more)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_grant_for_a_command_is_for_the_folder_that_it_starts_in(scope: str) -> None:
    given = grant(command("./run.sh"), scope)
    assert covered(command("./run.sh"), given)
    assert covered(command("./run.sh", ""), given)
    assert not covered(command("./run.sh", "/w/sub"), given)
    below = grant(command("make", "/w/sub"), scope)
    assert covered(command("make", "/w/sub"), below)
    assert not covered(command("make"), below)
    assert not covered(command("make", ""), below)


def test_always_is_for_the_folder_of_every_session_but_not_for_a_program_in_one_of_them() -> None:
    elsewhere: dict[str, Any] = {"session": "t", "roots": ("/v",), "cwd": "/v"}
    for line, is_covered in (
        ("git status", True),
        ("/usr/bin/make", True),
        ("./run.sh", False),
        ("bin/run", False),
        ("A=1 bin/run", False),
        ("sh ./run.sh", False),
        ("make && ../run", False),
        ("(./run.sh)", False),
    ):
        assert covered(command(line, **elsewhere), grant(command(line))) is is_covered, line


def test_a_grant_from_an_older_version_is_for_the_session_folder() -> None:
    given = Grant(
        id="g",
        verdict="allow",
        scope="always",
        operation="terminal_execute",
        created=0.0,
        resource="make",
        agent="coder",
    )
    assert covered(command("make"), given)
    assert not covered(command("make", "/w/sub"), given)


def test_a_grant_for_starting_a_server_is_for_the_same_variables() -> None:
    given = grant(question("mcp_start", "npx docs", server="docs", env=("DOCS_TOKEN",)))
    assert covered(question("mcp_start", "npx docs", server="docs", env=("DOCS_TOKEN",)), given)
    assert not covered(question("mcp_start", "npx docs", server="docs", env=("DOCS_TOKEN", "LD_PRELOAD")), given)
    assert not covered(question("mcp_start", "npx docs", server="docs"), given)


def test_deny_wins_over_allow() -> None:
    both = [grant(question()), grant(question(), "session", DENY), grant(question())]
    for grants in (both, both[::-1]):
        decided = decide_by_grants(grants, question(), NOW, "r")
        assert decided is not None
        assert decided.verdict is DENY


def decided(mode: str, given: Grant, *rules: str) -> str:
    """Return what a policy with these rules decides."""
    files = tuple(parse_rule_file(f'[[rule]]\ndecision = "{word}"', "p") for word in rules)
    return decide(Policy(files=files), question(mode=mode), [given], now=NOW, run="r").verdict.label


def test_a_grant_answers_what_would_be_asked_and_nothing_stronger() -> None:
    for scope in SCOPES:
        yes, no = grant(question(), scope), grant(question(), scope, DENY)
        assert decided("default", yes) == "allow"
        assert decided("default", yes, "ask") == "allow"
        assert decided("dontAsk", yes) == "allow"
        assert decided("default", yes, "deny") == "deny"
        assert decided("plan", yes) == "deny"
        assert decided("acceptEdits", no) == "deny"
        assert decided("default", no, "allow") == "deny"
