"""Every cell of the table of modes, written out a second time: a change of one must be meant."""

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
    """A question inside the workspace."""
    told = {"resource": INSIDE.get(operation, "x"), "roots": ("/w",), **more}
    return Question(operation=operation, **told)  # type: ignore[arg-type]


def verdict(asked: Question) -> str:
    """What is decided without files and grants."""
    return decide(Policy(), asked).verdict.label


@pytest.mark.parametrize(("name", "operation", "sign"), CELLS)
def test_each_cell(name: str, operation: str, sign: str) -> None:
    assert verdict(question(operation, mode=name)) == SIGNS[sign]


def test_there_are_the_modes_of_both_documents_and_no_others() -> None:
    seed_003 = {"default", "acceptEdits", "bypassPermissions", "dontAsk", "plan"}
    seed_004 = {"default", "plan", "code", "architect", "ask"}
    assert set(MODES) == seed_003 | seed_004


def test_a_mode_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ValueError, match="no policy mode 'yolo'; there are default, acceptEdits"):
        find_mode("yolo")


def test_an_operation_that_nobody_knows_is_treated_like_any_other() -> None:
    assert verdict(question("teleport")) == "ask"
    assert verdict(question("teleport", mode="plan")) == "deny"


@pytest.mark.parametrize("resource", ["/elsewhere/a", "/w-not/a", "/", ""])
@pytest.mark.parametrize(
    ("name", "expected"), [("default", "ask"), ("acceptEdits", "ask"), ("dontAsk", "deny"), ("plan", "ask")]
)
def test_reading_is_free_only_inside(resource: str, name: str, expected: str) -> None:
    assert verdict(question("file_read", resource=resource, mode=name)) == expected


def test_bypassing_asks_nothing_outside_either() -> None:
    assert verdict(question("file_write", resource="/etc/x", mode="bypassPermissions")) == "allow"


def test_a_link_that_leads_in_from_outside_is_not_inside() -> None:
    assert verdict(question("file_read", resource="/w/a", named="/tmp/link")) == "ask"


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("own", [*MODES, "yolo", "read-only", ""])
def test_the_agents_own_mode_makes_nothing_looser(own: str, name: str, operation: str) -> None:
    alone = decide(Policy(), question(operation, mode=name)).verdict
    both = decide(Policy(), question(operation, mode=name, agent_mode=own)).verdict
    assert both >= alone


def test_an_agent_that_plans_executes_nothing_though_the_user_asks_for_no_checks() -> None:
    assert verdict(question("terminal_execute", mode="bypassPermissions", agent_mode="plan")) == "deny"
    assert verdict(question("file_write", mode="acceptEdits", agent_mode="architect")) == "deny"


def test_an_agents_own_ask_is_no_more_than_asking() -> None:
    assert AGENT_MODES["ask"] is Verdict.ASK
    assert verdict(question("file_write", mode="acceptEdits", agent_mode="ask")) == "ask"


def test_a_rule_is_an_answer_to_an_agent_that_asks_and_not_to_one_that_plans() -> None:
    policy = Policy(files=(parse_rule_file('[[rule]]\ndecision = "allow"\n', "policy.toml"),))
    assert decide(policy, question("file_write", agent_mode="ask")).verdict is Verdict.ALLOW
    assert decide(policy, question("file_write", agent_mode="plan")).verdict is Verdict.DENY


def test_no_grant_makes_an_agent_act_that_only_plans() -> None:
    asked = question("terminal_execute", resource="make", agent_mode="plan")
    grant = build_grant(asked, Verdict.ALLOW, "always", id="g", now=0.0)
    assert grant is not None
    assert decide(Policy(), asked, [grant]).verdict is Verdict.DENY
    assert decide(Policy(), question("terminal_execute", resource="make"), [grant]).verdict is Verdict.ALLOW
