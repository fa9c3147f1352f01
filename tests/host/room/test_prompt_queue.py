"""The prompts of a room run in order, and a cancel is about the prompts of its sender."""

from __future__ import annotations

import pytest

from dragoman.errors import Kind, ProtocolError
from dragoman.host.room.prompt_queue import PREVIEW_LENGTH, PromptQueue, QueuedPrompt
from dragoman.schema.content import TextContent


def waiting(id: str, client_id: str) -> QueuedPrompt:
    return QueuedPrompt(id, client_id.upper(), client_id, [TextContent(text=id)])


def filled(*prompts: tuple[str, str]) -> PromptQueue:
    queue = PromptQueue(10)
    for id, client_id in prompts:
        queue.add(waiting(id, client_id))
    queue.start_next()
    return queue


def test_prompts_run_in_order() -> None:
    queue = filled(("1", "ann"), ("2", "ben"), ("3", "ann"))
    ran = [queue.running]
    while (one := queue.start_next()) is not None:
        ran.append(one)
    assert [one.id for one in ran if one] == ["1", "2", "3"]
    assert queue.is_empty


def test_a_cancel_by_the_running_client_stops_the_turn_and_withdraws_its_prompts() -> None:
    queue = filled(("1", "ann"), ("2", "ben"), ("3", "ann"))
    withdrawn, stopped = queue.cancel("ann")
    assert [one.id for one in withdrawn] == ["3"]
    assert stopped is queue.running
    assert [one.id for one in queue.waiting] == ["2"]


def test_a_cancel_by_a_waiting_client_withdraws_only_its_own_prompts() -> None:
    queue = filled(("1", "ann"), ("2", "ben"))
    withdrawn, stopped = queue.cancel("ben")
    assert [one.id for one in withdrawn] == ["2"]
    assert stopped is None


def test_a_cancel_by_a_client_without_prompts_stops_the_turn() -> None:
    queue = filled(("1", "ann"))
    assert queue.cancel("ben") == ([], queue.running)


def test_one_prompt_can_be_cancelled_by_its_id() -> None:
    queue = filled(("1", "ann"), ("2", "ann"), ("3", "ann"))
    withdrawn, stopped = queue.cancel("ann", "2")
    assert [one.id for one in withdrawn] == ["2"]
    assert stopped is None
    assert queue.cancel("ann", "1") == ([], queue.running)


def test_too_many_prompts_are_refused() -> None:
    queue = PromptQueue(1)
    queue.add(waiting("1", "ann"))
    with pytest.raises(ProtocolError) as refused:
        queue.add(waiting("2", "ann"))
    assert refused.value.kind == Kind.RATE_LIMITED
    assert refused.value.data == {"limit": 1}


def test_a_preview_is_one_short_line() -> None:
    preview = QueuedPrompt("1", "Ann", "ann", [TextContent(text="first\nsecond " + "x" * 200)]).preview
    assert preview.startswith("first second x")
    assert len(preview) == PREVIEW_LENGTH
    assert "\n" not in preview
