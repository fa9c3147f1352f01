"""Flows: an emulator's generators, stepped without tasks, so that what they pass on keeps its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.dialect.emulator import Flow, NotifyUser, Pass, SendNotification, Start, Wait, Wake
from dragoman.engine.emulation import Flows
from dragoman.engine.incoming import DoneCallback
from dragoman.errors import Kind, ProtocolError


class Stage:
    """Carries out effects: records them, and answers at once, later or with an error."""

    def __init__(self) -> None:
        self.effects: list[Any] = []
        self.later: list[DoneCallback] = []
        self.ended: list[tuple[Any, ProtocolError | None]] = []
        self.flows = Flows(self.execute)

    def execute(self, effect: Any, answer: DoneCallback) -> None:
        self.effects.append(effect)
        if isinstance(effect, Pass):
            self.later.append(answer)
        elif isinstance(effect, SendNotification) and effect.method == "unsayable":
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, "no words")
        elif isinstance(effect, SendNotification) and effect.method == "fault":
            raise ZeroDivisionError("ours")
        else:
            answer(effect, None)

    def start(self, flow: Flow) -> None:
        self.flows.start(flow, self.execute, lambda value, error: self.ended.append((value, error)))


def played(make: Callable[[], Flow]) -> Stage:
    stage = Stage()
    stage.start(make())
    return stage


def test_effects_that_are_answered_at_once_need_no_turn_of_the_loop() -> None:
    def flow() -> Flow:
        first = yield NotifyUser("one")
        second = yield SendNotification("m", {})
        return [first, second]

    stage = played(flow)
    assert stage.ended == [([NotifyUser("one"), SendNotification("m", {})], None)]


def test_ten_thousand_answers_at_once_need_no_deep_stack() -> None:
    def flow() -> Flow:
        for number in range(10_000):
            yield NotifyUser(str(number))
        return "done"

    assert played(flow).ended == [("done", None)]


def test_a_flow_continues_when_its_answer_arrives() -> None:
    def flow() -> Flow:
        return (yield Pass({"n": 1}))

    stage = played(flow)
    assert stage.ended == []
    stage.later.pop()("the answer", None)
    assert stage.ended == [("the answer", None)]


def test_an_error_is_raised_where_the_flow_waits_and_may_be_caught_there() -> None:
    def flow() -> Flow:
        try:
            yield Pass({})
        except ProtocolError as error:
            yield NotifyUser(error.kind)
            return "taken"

    stage = played(flow)
    stage.later.pop()(None, ProtocolError(Kind.TIMEOUT))
    assert stage.effects[-1] == NotifyUser(Kind.TIMEOUT)
    assert stage.ended == [("taken", None)]


def test_an_uncaught_error_is_the_result_of_the_flow() -> None:
    def flow() -> Flow:
        yield Pass({})

    stage = played(flow)
    stage.later.pop()(None, ProtocolError(Kind.TIMEOUT, "too late"))
    ((value, error),) = stage.ended
    assert value is None
    assert error is not None
    assert (error.kind, error.message) == (Kind.TIMEOUT, "too late")


def test_an_exception_in_a_flow_is_an_error_for_the_caller() -> None:
    def flow() -> Flow:
        yield NotifyUser("before")
        raise KeyError("ours")

    ((_, error),) = played(flow).ended
    assert error is not None
    assert error.kind == Kind.INTERNAL_ERROR


def test_an_effect_that_cannot_be_carried_out_is_raised_in_the_flow() -> None:
    def flow(method: str) -> Flow:
        yield SendNotification(method, {})

    for method, kind in (("unsayable", Kind.CAPABILITY_UNSUPPORTED), ("fault", Kind.INTERNAL_ERROR)):
        ((_, error),) = played(lambda method=method: flow(method)).ended  # type: ignore[misc]
        assert error is not None
        assert error.kind == kind


def test_wake_resumes_the_longest_waiting_flow_and_returns_whether_there_was_one() -> None:
    def waiter(name: str) -> Flow:
        return name, (yield Wait("key"))

    def waker() -> Flow:
        return (yield Wake("key", 5))

    stage = Stage()
    stage.start(waiter("first"))
    stage.start(waiter("second"))
    assert stage.ended == []
    for _ in range(3):
        stage.start(waker())
    assert [value for value, _ in stage.ended] == [("first", 5), True, ("second", 5), True, False]


def test_a_flow_that_is_started_by_another_runs_until_it_waits() -> None:
    def beside() -> Flow:
        yield NotifyUser("beside")
        yield Wait("never")

    def flow() -> Flow:
        yield Start(beside())
        return "done"

    stage = played(flow)
    assert stage.effects == [NotifyUser("beside")]
    assert stage.ended == [("done", None)]


def test_waiting_flows_fail_when_the_connection_ends() -> None:
    def flow() -> Flow:
        yield Wait("key")

    stage = played(flow)
    stage.flows.fail(ProtocolError(Kind.INTERNAL_ERROR, "closed"))
    ((_, error),) = stage.ended
    assert error is not None
    assert error.message == "closed"
    stage.flows.fail(ProtocolError(Kind.INTERNAL_ERROR, "again"))
    assert len(stage.ended) == 1
