"""Retry: delays grow with full jitter, they end, and the user gets two reports."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.errors import TransportClosed, Unreachable
from dragoman.transport.remote.errors import parse_retry_after, status_error
from dragoman.transport.remote.retry import Backoff, Outage, RetryLoop


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


def tried(failures: list[Exception], patience: Backoff = Backoff()) -> tuple[list[str], list[float], object]:  # noqa: B008
    said: list[str] = []
    clock = Clock()
    left = list(failures)

    async def attempt() -> str:
        if left:
            raise left.pop(0)
        return "there"

    retrying = RetryLoop(
        "agent x", patience, Outage(said.append), "cut", jitter=lambda: 1.0, clock=clock, sleep=clock.sleep
    )
    try:
        outcome: object = asyncio.run(retrying.run(attempt))
    except Exception as error:
        outcome = error
    return said, clock.slept, outcome


def passing(wait: float | None = None) -> Unreachable:
    return Unreachable("nobody listens", is_passing=True, wait=wait)


def test_delays_double_up_to_the_maximum() -> None:
    said, slept, outcome = tried([passing()] * 9)
    assert slept == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0]
    assert outcome == "there"
    assert [line.split("; ")[0] for line in said] == [
        "agent x: the connection was cut (cut)",
        "agent x: connected again after 42.6 s",
    ]


def test_a_first_attempt_that_succeeds_is_not_reported() -> None:
    assert tried([]) == ([], [], "there")


def test_disconnects_repaired_by_the_first_attempt_are_reported_in_one_line() -> None:
    said: list[str] = []
    outage = Outage(said.append)

    async def attempt() -> None:
        pass

    for _ in range(3):
        asyncio.run(RetryLoop("agent x", Backoff(), outage, "cut", was_cut=True, clock=lambda: 0.0).run(attempt))
    assert said == ["agent x: the connection was cut and is restored (0.0 s)"]


def test_retrying_ends_at_the_time_limit() -> None:
    _, slept, outcome = tried([passing()] * 99, Backoff(give_up_after=5.0))
    assert isinstance(outcome, Unreachable)
    assert sum(slept) == pytest.approx(5.0)


def test_a_permanent_error_ends_retrying_at_once() -> None:
    for error in (status_error("x", 401), status_error("x", 404), TransportClosed("gone")):
        _, slept, outcome = tried([error])
        assert outcome is error
        assert slept == []


def test_retry_after_of_a_server_is_obeyed() -> None:
    _, slept, _ = tried([status_error("x", 429, {"retry-after": "7"}), passing()])
    assert slept == [7.0, 0.4]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("", None),
        ("3", 3.0),
        ("0.5", 0.5),
        ("-1", 0.0),
        ("99999", 300.0),
        ("soon", None),
        ("nan", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert parse_retry_after(value) == seconds


def test_a_busy_server_is_waited_for_as_long_as_it_says_or_for_a_moment() -> None:
    assert str(status_error("x", 503)) == "x: HTTP 503: it is shutting down or too busy; try again in a moment"
    told = str(status_error("x", 503, {"retry-after": "1"}))
    assert told == "x: HTTP 503: it is shutting down or too busy; try again in 1 s"
