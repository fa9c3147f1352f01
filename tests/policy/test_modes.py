"""Every cell of the mode table, written out a second time, so that no cell changes by accident."""

from __future__ import annotations

import pytest

from dragoman.policy.decide import Policy, decide
from dragoman.policy.decision import Verdict
from dragoman.policy.grants import build_grant
from dragoman.policy.modes import AGENT_MODES, MODES, find_mode
from dragoman.policy.parse import parse_rule_file
from dragoman.policy.question import OPERATIONS, Question

INSIDE = {"file_read": "/w/a", "file_write": "/w/a", "file_delete": "/w/a"}

# A for allow, ? for ask, - for deny; the columns are the operations in their order.
TABLE = {
    "default": "A????????",
    "acceptEdits": "AA???????",
    "bypassPermissions": "AAAAAAAAA",
    "dontAsk": "A--------",
    "plan": "A---?-??-",
    "code": "AA???????",
    "architect": "A---?????",
    "ask": "A------?-",
}
SIGNS = {"A": "allow", "?": "ask", "-": "deny"}
CELLS = [(name, *cell) for name, row in TABLE.items() for cell in zip(OPERATIONS, row, strict=True)]


def question(operation: str, **more: object) -> Question:
    """Return a question inside the workspace."""
    values = {"resource": INSIDE.get(operation, "x"), "roots": ("/w",), **more}
    return Question(operation=operation, **values)  # type: ignore[arg-type]


def verdict(asked: Question) -> str:
    """Return the decision without files and grants."""
    return decide(Policy(), asked).verdict.label


@pytest.mark.parametrize(("name", "operation", "sign"), CELLS)
def test_each_cell_of_the_mode_table(name: str, operation: str, sign: str) -> None:
    assert verdict(question(operation, mode=name)) == SIGNS[sign]


def test_there_are_the_modes_of_both_documents_and_no_others() -> None:
    seed_003 = {"default", "acceptEdits", "bypassPermissions", "dontAsk", "plan"}
    seed_004 = {"default", "plan", "code", "architect", "ask"}
    assert set(MODES) == seed_003 | seed_004


def test_an_unknown_mode_is_an_error_that_lists_the_modes() -> None:
    with pytest.raises(ValueError, match="unknown policy mode 'yolo'; choose one of default, acceptEdits"):
        find_mode("yolo")


def test_an_unknown_operation_is_treated_as_other() -> None:
    assert verdict(question("teleport")) == "ask"
    assert verdict(question("teleport", mode="plan")) == "deny"


@pytest.mark.parametrize("resource", ["/elsewhere/a", "/w-not/a", "/", ""])
@pytest.mark.parametrize(
    ("name", "expected"), [("default", "ask"), ("acceptEdits", "ask"), ("dontAsk", "deny"), ("plan", "ask")]
)
def test_reading_is_allowed_only_inside_the_session_folders(resource: str, name: str, expected: str) -> None:
    assert verdict(question("file_read", resource=resource, mode=name)) == expected


def test_bypass_permissions_also_allows_files_outside() -> None:
    assert verdict(question("file_write", resource="/etc/x", mode="bypassPermissions")) == "allow"


def test_a_link_that_leads_in_from_outside_is_not_inside() -> None:
    assert verdict(question("file_read", resource="/w/a", requested_path="/tmp/link")) == "ask"


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("own", [*MODES, "yolo", "read-only", ""])
def test_the_agents_own_mode_never_allows_more(own: str, name: str, operation: str) -> None:
    alone = decide(Policy(), question(operation, mode=name)).verdict
    both = decide(Policy(), question(operation, mode=name, agent_mode=own)).verdict
    assert both >= alone


def test_an_agent_in_plan_mode_executes_nothing_even_with_bypass_permissions() -> None:
    assert verdict(question("terminal_execute", mode="bypassPermissions", agent_mode="plan")) == "deny"
    assert verdict(question("file_write", mode="acceptEdits", agent_mode="architect")) == "deny"


def test_an_agents_own_ask_mode_only_asks() -> None:
    assert AGENT_MODES["ask"] is Verdict.ASK
    assert verdict(question("file_write", mode="acceptEdits", agent_mode="ask")) == "ask"


def test_a_rule_overrides_an_agents_ask_mode_but_not_its_plan_mode() -> None:
    policy = Policy(files=(parse_rule_file('[[rule]]\ndecision = "allow"\n', "policy.toml"),))
    assert decide(policy, question("file_write", agent_mode="ask")).verdict is Verdict.ALLOW
    assert decide(policy, question("file_write", agent_mode="plan")).verdict is Verdict.DENY


def test_no_grant_overrides_an_agents_plan_mode() -> None:
    asked = question("terminal_execute", resource="make", agent_mode="plan")
    grant = build_grant(asked, Verdict.ALLOW, "always", id="g", now=0.0)
    assert grant is not None
    assert decide(Policy(), asked, [grant]).verdict is Verdict.DENY
    assert decide(Policy(), question("terminal_execute", resource="make"), [grant]).verdict is Verdict.ALLOW


# --- files that other programs obey ---------------------------------------------------------------------------

OBEYED = [
    ".git/config", ".git/hooks/pre-commit", ".git", "sub/.GIT/Config", "bare/HEAD", ".envrc", ".bashrc", "a/.profile",
    ".vscode/tasks.json", ".idea/workspace.xml", "x.code-workspace", ".github/workflows/ci.yml",
    ".github/actions/x/action.yml", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile", ".husky/pre-push",
    ".pre-commit-config.yaml", ".ssh/authorized_keys", ".config/fish/config.fish", ".mcp.json", ".claude/settings.json",
    ".cargo/config.toml", ".npmrc", "lib/x.pth", "sitecustomize.py",
    ".hg/hgrc", ".helix/languages.toml", ".opencode/opencode.json", ".yarn/releases/yarn.cjs", ".mvn/maven.config",
    ".config/nvim/init.lua", ".config/mise/config.toml", "mise.toml", "x.sublime-project", ".Rprofile", ".kube/config",
]  # fmt: skip


@pytest.mark.parametrize("path", OBEYED)
def test_a_file_that_other_programs_obey_is_asked_about_in_every_mode_but_bypass(path: str) -> None:
    expected = {"bypassPermissions": "allow", "acceptEdits": "ask", "code": "ask", "default": "ask"}
    for mode in MODES:
        asked = question("file_write", mode=mode, resource=f"/w/{path}")
        assert verdict(asked) == expected.get(mode, "deny")
        by_link = question("file_write", mode=mode, resource="/w/plain", requested_path=f"/w/{path}")
        assert verdict(by_link) == expected.get(mode, "deny")
    assert verdict(question("file_read", resource=f"/w/{path}")) == "allow"


@pytest.mark.parametrize(
    "path", [".gitignore", ".github/CODEOWNERS", "src/git/config", "a.profile", "headers/x", "x.py"]
)
def test_other_files_are_written_as_the_mode_says(path: str) -> None:
    assert verdict(question("file_write", mode="acceptEdits", resource=f"/w/{path}")) == "allow"


def test_a_folder_above_the_sessions_own_may_have_any_name() -> None:
    asked = question("file_write", mode="code", resource="/x/.git/w/a", roots=("/x/.git/w",))
    assert verdict(asked) == "allow"


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("**", ".git/config", "ask"),
        ("**/*", "src/.git/hooks/x", "ask"),
        ("src/**", "src/.envrc", "ask"),
        (".git/**", ".git/config", "allow"),
        ("**/.envrc", "src/.envrc", "allow"),
        (".github/**", ".github/workflows/ci.yml", "allow"),
        ("*.code-workspace", "x.code-workspace", "allow"),
        ("headers/**", "headers/HEAD", "ask"),
    ],
)
def test_a_rule_covers_such_a_file_only_if_it_names_it(pattern: str, path: str, expected: str) -> None:
    rules = parse_rule_file(f'[[rule]]\ndecision = "allow"\noperation = "file_write"\npath = "{pattern}"\n', "mine")
    asked = question("file_write", mode="acceptEdits", resource=f"/w/{path}")
    assert decide(Policy(files=(rules,)), asked).verdict.label == expected
    wide = parse_rule_file('[[rule]]\ndecision = "allow"\noperation = "file_write"\n', "mine")
    assert decide(Policy(files=(wide,)), asked).verdict.label == "ask"


def test_a_grant_covers_such_a_file() -> None:
    asked = question("file_write", mode="acceptEdits", resource="/w/.git/config")
    grant = build_grant(asked, Verdict.ALLOW, "always", id="1", now=0.0)
    assert grant is not None
    assert decide(Policy(), asked, [grant]).verdict is Verdict.ALLOW
