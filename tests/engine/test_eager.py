"""A request's handler starts at once: its synchronous part runs before the next message."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from dragoman.engine import eager
from dragoman.engine.incoming import DoneCallback, Incoming
from tests.engine.raw_peer import call, note, talking


def starter() -> eager.Starter:
    return eager.Starter(asyncio.get_running_loop(), contextvars.copy_context())


def begun(work: Any) -> asyncio.Task[Any]:
    task = starter().start(work)
    assert task is not None
    return task


async def test_the_synchronous_part_of_a_handler_runs_before_the_next_message() -> None:
    order: list[str] = []

    async def slow(params: Any) -> Any:
        order.append(f"begin {params['n']}")
        await asyncio.sleep(0)
        order.append(f"end {params['n']}")
        return {}

    async with talking({"_slow": slow, "_told": lambda params: order.append(f"told {params['n']}")}) as talk:
        for n in range(3):
            talk.peer.send(call(n, "_slow", {"n": n}))
            talk.peer.send(note("_told", {"n": n}))
        for _ in range(3):
            await talk.peer.expect(result={})
    assert order[:6] == ["begin 0", "told 0", "begin 1", "told 1", "begin 2", "told 2"]
    assert sorted(order[6:]) == ["end 0", "end 1", "end 2"]


async def test_the_current_task_is_the_handler_s_own_from_the_first_line_on() -> None:
    seen: list[Any] = []

    async def work() -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    before = asyncio.current_task()
    task = begun(work())
    assert asyncio.current_task() is before
    assert seen == [task]
    await task
    assert seen == [task, task]


async def test_a_timeout_that_begins_in_the_first_step_works() -> None:

    async def hurry(_: Any) -> Any:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return {"late": True}

    async with talking({"_hurry": hurry}) as talk:
        talk.peer.send(call(1, "_hurry"))
        await talk.peer.expect(id=1, result={"late": True})


async def test_a_task_group_that_begins_in_the_first_step_works() -> None:

    async def work() -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0, n)) for n in range(3)]
        return [task.result() for task in tasks]

    assert await begun(work()) == [0, 1, 2]


async def test_work_that_never_waits_needs_no_task() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        done.append(number)

    start = starter()
    assert [start.start(work(number)) for number in range(3)] == [None, None, None]
    assert done == [0, 1, 2]
    await asyncio.sleep(0)
    assert start.start(work(3)) is None, "a spare that has waited for work serves as well"
    assert done == [0, 1, 2, 3]
    start.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_work_that_waits_after_others_that_did_not_has_a_task_of_its_own() -> None:
    seen: list[Any] = []
    go = asyncio.Event()

    async def brief() -> None:
        seen.append(asyncio.current_task())

    async def long() -> int:
        seen.append(asyncio.current_task())
        await go.wait()
        return 5

    start = starter()
    start.start(brief())
    await asyncio.sleep(0)
    first, second = start.start(long()), start.start(long())
    assert first is not None
    assert second is not None
    assert first is not second
    assert seen[1:] == [first, second]
    assert start.start(brief()) is None
    go.set()
    assert list(await asyncio.gather(first, second)) == [5, 5]
    start.close()


@pytest.mark.parametrize("mark", ["kept", "cancelled", "variable"])
async def test_a_task_that_the_work_changed_is_not_reused(mark: str) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)

    kept: list[Any] = []
    ran: list[int] = []

    async def marking() -> None:
        task = asyncio.current_task()
        assert task is not None
        if mark == "kept":
            kept.append(task)
        elif mark == "cancelled":
            task.cancel()
        else:
            variable.set(1)

    async def honest() -> None:
        assert variable.get() == 0
        await asyncio.sleep(0)
        ran.append(1)

    start = starter()
    start.start(marking())
    task = start.start(honest())
    assert task is not None
    for one in kept:
        assert one is not task
        one.cancel()
    await task
    assert ran == [1]
    start.close()


async def test_an_exception_before_the_first_await_is_raised_by_the_task() -> None:

    async def work() -> None:
        raise ValueError("at once")

    task = begun(work())
    with pytest.raises(ValueError, match="at once"):
        await task


@pytest.mark.parametrize("waits_for", ["event", "sleep", "task", "done"])
async def test_work_that_is_cancelled_right_after_its_start_is_cancelled_at_its_first_await(waits_for: str) -> None:
    received: list[str] = []
    inner = asyncio.ensure_future(asyncio.Event().wait())
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            if waits_for == "event":
                await asyncio.Event().wait()
            elif waits_for == "sleep":
                await asyncio.sleep(0)
            elif waits_for == "task":
                await inner
            else:
                await ready
        except asyncio.CancelledError:
            received.append("cancelled")
            raise

    task = begun(work())
    if waits_for == "done":
        ready.set_result(None)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert received == ["cancelled"]
    assert task.cancelled()
    if waits_for == "task":
        assert inner.cancelled()
    inner.cancel()


async def test_a_request_and_its_cancel_in_one_read_are_both_handled() -> None:

    async def wait(_: Any) -> Any:
        await asyncio.Event().wait()

    async with talking({"_wait": wait}) as talk:

        def stop(incoming: Incoming, _: DoneCallback) -> None:
            talk.connection.running_requests.cancel(incoming.params["id"])

        talk.connection.handlers["_stop"] = stop
        talk.peer.send(call("long", "_wait"))
        talk.peer.send(note("_stop", {"id": "long"}))
        await talk.peer.expect(id="long", error={"code": -32800, "data": {"kind": "cancelled"}})


async def test_variables_set_in_a_handler_stay_in_it() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    seen: list[int] = []

    async def work(n: int) -> None:
        variable.set(n)
        await asyncio.sleep(0)
        seen.append(variable.get())

    tasks = [begun(work(n)) for n in (1, 2)]
    assert variable.get() == 0
    await asyncio.gather(*tasks)
    assert seen == [1, 2]
