"""Answers are options that the agent offered; none allows more than the user decided."""

from __future__ import annotations

from itertools import combinations

import pytest

from dragoman.policy.decision import ALLOW, DENY, Verdict
from dragoman.policy.grants import SCOPES
from dragoman.policy.permission_options import choose_option, option_meaning
from dragoman.schema.permission import PermissionOption

KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
DRAFT = (
    ("once", "allow_once"),
    ("session", "allow_always"),
    ("workspace", "allow_always"),
    ("always", "allow_always"),
    ("deny", "reject_once"),
)


def offered(*options: str | tuple[str, str]) -> list[PermissionOption]:
    """Return options by kind, with the agent's own ids, or by id and kind."""
    pairs = [(f"id-{option}", option) if isinstance(option, str) else option for option in options]
    return [PermissionOption(option_id=id, name=id, kind=kind) for id, kind in pairs]


@pytest.mark.parametrize(
    ("verdict", "scope", "kinds", "chosen"),
    [
        (ALLOW, "once", KINDS, "allow_once"),
        (ALLOW, "session", KINDS, "allow_once"),
        (ALLOW, "workspace", KINDS, "allow_once"),
        (ALLOW, "always", KINDS, "allow_always"),
        (DENY, "once", KINDS, "reject_once"),
        (DENY, "always", KINDS, "reject_always"),
        (ALLOW, "once", ("allow_always", "reject_once"), None),
        (ALLOW, "session", ("allow_always", "reject_once"), None),
        (ALLOW, "always", ("allow_once",), "allow_once"),
        (DENY, "once", ("allow_once", "reject_always"), "reject_always"),
        (DENY, "always", ("reject_once",), "reject_once"),
        (DENY, "once", ("allow_once", "allow_always"), None),
        (ALLOW, "once", ("maybe",), None),
        (ALLOW, "once", (), None),
    ],
)
def test_the_option_for_each_decision(verdict: Verdict, scope: str, kinds: tuple[str, ...], chosen: str | None) -> None:
    assert choose_option(offered(*kinds), verdict, scope) == (chosen and f"id-{chosen}")


@pytest.mark.parametrize("scope", SCOPES)
def test_the_drafts_scopes_have_their_own_options(scope: str) -> None:
    assert choose_option(offered(*DRAFT), ALLOW, scope) == scope
    assert choose_option(offered(*DRAFT), DENY, scope) == "deny"


@pytest.mark.parametrize("verdict", [ALLOW, DENY])
@pytest.mark.parametrize("scope", SCOPES)
def test_the_answer_is_an_offered_option_and_never_allows_more_than_decided(verdict: Verdict, scope: str) -> None:
    for size in range(len(KINDS) + 1):
        for kinds in combinations(KINDS, size):
            options = offered(*kinds)
            chosen = choose_option(options, verdict, scope)
            if chosen is None:
                continue
            kind = next(option.kind for option in options if option.option_id == chosen)
            assert kind.startswith("allow" if verdict is ALLOW else "reject")
            assert kind != "allow_always" or scope == "always"


def test_the_first_of_two_options_of_one_kind_is_chosen() -> None:
    assert choose_option(offered(("a", "allow_once"), ("b", "allow_once")), ALLOW) == "a"


def test_an_option_called_like_a_larger_scope_is_not_once() -> None:
    assert choose_option(offered(("always", "allow_once")), ALLOW, "once") is None


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("allow_once", (ALLOW, "once")),
        ("allow_always", (ALLOW, "workspace")),
        ("reject_once", (DENY, "once")),
        ("reject_always", (DENY, "workspace")),
        (("session", "allow_always"), (ALLOW, "session")),
        (("always", "allow_always"), (ALLOW, "always")),
        ("maybe", None),
    ],
)
def test_what_choosing_an_option_means(option: str | tuple[str, str], expected: tuple[Verdict, str] | None) -> None:
    assert option_meaning(offered(option)[0]) == expected
