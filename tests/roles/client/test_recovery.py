"""Recovery from errors by the table of strategies, bounded, with a fake clock and fixed jitter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, ConnectionFailed, Kind, Option, ProtocolError, Turn, WorkspaceAccess
from dragoman.roles.client.recovery import STRATEGIES, FailedAttempt, Recovery, Strategy, strategy_of
from dragoman.schema.config import SessionMode
from dragoman.testing import connect_in_memory
from tests.roles.translated_pair import CWD, TRANSLATED, translated


class Clock:
    """A sleep that returns at once and records the delays."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


class Failing:
    """Work that fails with these errors in turn and then succeeds."""

    def __init__(self, *kinds: str) -> None:
        self.errors = [ProtocolError(kind, f"{kind} it is") for kind in kinds]
        self.stretches: list[float] = []

    async def __call__(self, stretch: float) -> str:
        self.stretches.append(stretch)
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def always_retry(_: FailedAttempt) -> bool:
    return True


@pytest.mark.item("004-60")
@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        (Kind.SESSION_NOT_FOUND, Strategy.NEW_SESSION),
        (Kind.PERMISSION_DENIED, Strategy.EXPLAIN),
        (Kind.RATE_LIMITED, Strategy.BACK_OFF),
        (Kind.TIMEOUT, Strategy.LONGER_TIMEOUT),
        (Kind.INTERNAL_ERROR, Strategy.REPORT),
        (Kind.INVALID_PARAMS, None),
        (Kind.CANCELLED, None),
    ],
)
def test_each_kind_has_its_strategy(kind: str, strategy: str | None) -> None:
    assert strategy_of(ProtocolError(kind)) == strategy
    assert STRATEGIES.get(kind) == strategy


@pytest.mark.parametrize(
    ("kind", "message", "data"),
    [
        (Kind.INVALID_PARAMS, "Session not found: abc", None),
        (Kind.INTERNAL_ERROR, "Internal error", {"details": "Unknown session abc"}),
        (Kind.INTERNAL_ERROR, "session abc does not exist", None),
        (Kind.RESOURCE_NOT_FOUND, "no such session", None),
    ],
)
def test_agents_that_call_an_unknown_session_something_else_are_understood(
    kind: str, message: str, data: dict[str, Any] | None
) -> None:
    assert strategy_of(ProtocolError(kind, message, data)) == Strategy.NEW_SESSION


@pytest.mark.item("004-60")
async def test_delays_double_up_to_a_limit_with_jitter() -> None:
    clock = Clock()
    chances = iter([1.0, 0.0, 0.5, 1.0, 1.0])
    recovery = Recovery(
        max_attempts=6, initial_delay=1.0, max_delay=6.0, sleep=clock.sleep, jitter=lambda: next(chances)
    )
    assert await recovery.run(Failing(*[Kind.RATE_LIMITED] * 5)) == "done"
    assert clock.pauses == [1.0, 1.0, 3.0, 6.0, 6.0]


@pytest.mark.item("004-60")
async def test_each_timeout_makes_the_next_timeout_longer() -> None:
    work = Failing(Kind.TIMEOUT, Kind.TIMEOUT)
    assert await Recovery(timeout_factor=3.0).run(work) == "done"
    assert work.stretches == [1.0, 3.0, 9.0]


@pytest.mark.item("004-60")
@pytest.mark.parametrize("kind", [Kind.PERMISSION_DENIED, Kind.INTERNAL_ERROR])
async def test_the_user_is_told_and_decides_whether_to_try_again(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    reports: list[str] = []
    answers = iter([True, False])

    async def retry(_: FailedAttempt) -> bool:
        return next(answers)

    work = Failing(kind, kind, kind)
    recovery = Recovery(on_failure=lambda trouble: reports.append(trouble.explanation), confirm_retry=retry)
    with pytest.raises(ProtocolError) as caught:
        await recovery.run(work)
    assert caught.value.kind == kind
    assert len(work.stretches) == 2
    assert len(reports) == 2
    assert all(f"{kind} it is" in text for text in reports)
    assert bool(caplog.records) == (kind == Kind.INTERNAL_ERROR)


@pytest.mark.parametrize("kind", [Kind.PERMISSION_DENIED, Kind.INTERNAL_ERROR])
async def test_errors_that_need_the_user_are_not_retried_without_a_callback(kind: str) -> None:
    work = Failing(kind)
    with pytest.raises(ProtocolError):
        await Recovery().run(work)
    assert len(work.stretches) == 1


@pytest.mark.parametrize("kind", list(STRATEGIES))
async def test_attempts_are_bounded_and_the_last_error_is_raised(kind: str) -> None:
    work = Failing(*[kind] * 9)

    async def renew() -> None:
        return None

    recovery = Recovery(max_attempts=3, confirm_retry=always_retry, sleep=Clock().sleep)
    with pytest.raises(ProtocolError) as caught:
        await recovery.run(work, renew=renew)
    assert caught.value.kind == kind
    assert len(work.stretches) == 3


@pytest.mark.parametrize("kind", [Kind.RATE_LIMITED, Kind.TIMEOUT, Kind.SESSION_NOT_FOUND])
async def test_work_with_effects_is_not_repeated_without_asking(kind: str) -> None:

    async def renew() -> None:
        return None

    for retry, tries in ((None, 1), (always_retry, 2)):
        work = Failing(kind)
        recovery = Recovery(confirm_retry=retry, sleep=Clock().sleep)
        running = recovery.run(work, renew=renew, has_acted=lambda: True)
        if retry is None:
            with pytest.raises(ProtocolError):
                await running
        else:
            assert await running == "done"
        assert len(work.stretches) == tries


async def test_other_errors_and_a_lost_agent_pass_through() -> None:
    work = Failing(Kind.AUTH_REQUIRED)
    with pytest.raises(ProtocolError):
        await Recovery(confirm_retry=always_retry).run(work)

    async def lost(_: float) -> None:
        raise ConnectionFailed("gone")

    with pytest.raises(ConnectionFailed):
        await Recovery(confirm_retry=always_retry).run(lost)
    assert len(work.stretches) == 1


# --- with an agent --------------------------------------------------------------------------------------------


def failing_agent(fail: Callable[[int], str | None]) -> Agent:
    """Return an agent whose nth prompt fails with the kind that `fail` returns."""
    agent = Agent("troubled", version="1", modes=[SessionMode(id=id, name=id) for id in ("ask", "code")])
    prompts = 0

    @agent.prompt
    async def answer(turn: Turn) -> None:
        nonlocal prompts
        prompts += 1
        kind = fail(prompts)
        if kind is not None:
            raise ProtocolError(kind, "try later")
        await turn.say("well done")

    return agent


@pytest.mark.item("004-60")
async def test_a_rate_limited_prompt_is_retried_after_a_delay() -> None:
    clock = Clock()
    async with connect_in_memory(failing_agent(lambda n: Kind.RATE_LIMITED if n < 3 else None)) as remote:
        session = await remote.open_session(CWD)
        recovery = Recovery(sleep=clock.sleep, jitter=lambda: 1.0)
        assert await session.ask("go", recovery=recovery) == "well done"
        assert clock.pauses == [1.0, 2.0]


@pytest.mark.item("004-60")
async def test_a_session_that_the_agent_lost_is_replaced_by_a_new_one() -> None:
    agent = failing_agent(lambda _: None)
    async with connect_in_memory(agent) as remote:
        session = await remote.open_session(CWD, mode="code")
        assert await session.ask("one") == "well done"
        before = session.id
        agent.sessions.clear()  # it was started anew, say
        received: list[FailedAttempt] = []
        recovery = Recovery(on_failure=received.append)
        assert await session.ask("two", recovery=recovery) == "well done"
        assert session.id != before
        assert session.mode == "code"
        assert [trouble.strategy for trouble in received] == [Strategy.NEW_SESSION]
        assert "without its history" in received[0].explanation
        assert await session.ask("three") == "well done"
        assert [one.text for one in session.transcript.messages if one.role == "agent"] == ["well done"] * 3


@pytest.mark.parametrize("dialect", ["v1", "banjo", "draft"])
async def test_a_session_that_is_renewed_has_the_options_it_was_set_to(dialect: str) -> None:
    options = [
        Option.models(["sonnet", "opus"]),
        Option.switch("loud"),
        Option.json_value("depth", 3),
        Option.select("mood", ["good", "bad"]),
    ]
    agent = Agent("set", options=options)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(" ".join(str(turn.session.get_option(option.id)) for option in options))

    async with connect_in_memory(agent, dialect=dialect) as remote:
        session = await remote.open_session(CWD)
        for option, value in (("model", "opus"), ("loud", True), ("depth", 5), ("mood", "bad")):
            await session.set_option(option, value)
        assert await session.ask("how?") == "opus True 5 bad"
        agent.sessions.clear()
        agent.options[3] = Option.select("mood", ["good"])  # what is no longer taken stops nobody
        assert await session.ask("how?", recovery=Recovery()) == "opus True 5 good"


async def test_the_workspace_of_a_lost_session_ends_and_the_new_one_gets_its_own(tmp_path: Path) -> None:
    agent = Agent("runner", version="1")
    opened: list[Any] = []

    @agent.prompt
    async def start(turn: Turn) -> None:
        opened.append(await turn.terminals.create("sleep", ["600"]))
        await turn.say(opened[-1].id)

    lending = WorkspaceAccess()
    async with connect_in_memory(agent, workspace=lending) as remote:
        session = await remote.open_session(str(tmp_path))
        first = await session.ask("one")
        agent.sessions.clear()
        second = await session.ask("two", recovery=Recovery())
        ended, running = lending.find_terminal(first), lending.find_terminal(second)
        assert ended is not None
        assert ended.output()[2] is not None
        assert running is not None
        assert running.output()[2] is None


@pytest.mark.item("004-60")
@pytest.mark.parametrize(("client", "agent"), TRANSLATED)
async def test_error_kinds_pass_a_translator_and_are_recovered_from(client: str, agent: str) -> None:
    kinds = [Kind.RATE_LIMITED, Kind.TIMEOUT, Kind.PERMISSION_DENIED, Kind.INTERNAL_ERROR]
    clock = Clock()
    reports: list[str] = []
    recovery = Recovery(
        max_attempts=9,
        sleep=clock.sleep,
        confirm_retry=always_retry,
        on_failure=lambda trouble: reports.append(trouble.error.kind),
    )
    failing = failing_agent(lambda n: kinds[n - 1] if n <= len(kinds) else None)
    async with translated(failing, client, agent) as remote:
        session = await remote.open_session(CWD)
        assert await session.ask("go", recovery=recovery) == "well done"
        assert reports == kinds
        failing.sessions.clear()
        assert await session.ask("go", recovery=recovery) == "well done"
        assert reports[len(kinds) :] == [Kind.SESSION_NOT_FOUND]


@pytest.mark.item("004-60", "004-62")
async def test_a_timed_out_turn_is_retried_with_a_longer_timeout() -> None:
    agent = Agent("slow", version="1")
    cancelled = False

    @agent.prompt
    async def answer(turn: Turn) -> None:
        nonlocal cancelled
        if not cancelled:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled = True
        await turn.say("awake")

    async with connect_in_memory(agent) as remote:
        session = await remote.open_session(CWD)
        reports: list[str] = []
        recovery = Recovery(timeout_factor=1000.0, on_failure=lambda trouble: reports.append(trouble.error.message))
        assert await session.ask("go", idle_timeout=0.02, recovery=recovery) == "awake"
        assert cancelled
        assert reports == ["the agent sent no update for 0.02 s"]


@pytest.mark.parametrize(
    ("message", "data", "shown"),
    [
        ("Internal error", {"details": "no such session"}, "Internal error: no such session"),
        ("Internal error", {"details": ["deep"]}, "Internal error"),
        ("no such session", {"details": "no such session"}, "no such session"),
        ("Internal error", None, "Internal error"),
    ],
)
def test_the_reason_in_the_error_data_is_part_of_the_explanation(
    message: str, data: dict[str, Any] | None, shown: str
) -> None:
    assert ProtocolError(Kind.INTERNAL_ERROR, message, data).explanation == shown
