"""Our pending requests: each has its own id, and its answer is found however the peer writes the id."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.engine.requests import MAX_ABANDONED, PendingRequest, PendingRequests


def add_request(exchanges: PendingRequests, method: str = "m") -> int:
    return exchanges.add(PendingRequest(method, lambda *_: None))


def test_ids_count_from_zero_and_are_never_used_again() -> None:
    exchanges = PendingRequests()
    ids = [add_request(exchanges) for _ in range(3)]
    assert ids == [0, 1, 2]
    exchanges.pop(2)
    exchanges.abandon(1)
    assert add_request(exchanges) == 3


@pytest.mark.parametrize("id", [1, "1", 1.0, "01"])
def test_an_answer_is_matched_by_its_id_as_number_or_text(id: Any) -> None:
    """docs/protocol/peers.md#id-shapes: some peers turn ids into strings."""
    exchanges = PendingRequests()
    add_request(exchanges, "first")
    add_request(exchanges, "second")
    found = exchanges.pop(id)
    assert found is not None
    assert found.method == "second"
    assert exchanges.pop(id) is None
    assert set(exchanges.by_id) == {0}


@given(st.none() | st.text() | st.floats() | st.integers() | st.sampled_from(["²", "١", "9" * 5000, "-0", "0x0", " 0"]))
def test_any_id_can_be_looked_up(id: Any) -> None:
    exchanges = PendingRequests()
    add_request(exchanges)
    assert not exchanges.is_nested(id)
    found = exchanges.pop(id)
    assert (found is None) == (0 in exchanges.by_id)
    assert exchanges.was_abandoned(id) is False


def test_a_late_answer_to_an_abandoned_request_is_expected() -> None:
    exchanges = PendingRequests()
    id = add_request(exchanges)
    exchanges.abandon(id)
    assert exchanges.pop(id) is None
    assert exchanges.was_abandoned(id)
    assert exchanges.was_abandoned(str(id))
    exchanges.abandon(77)
    assert not exchanges.was_abandoned(77)


def test_the_number_of_remembered_abandoned_requests_is_limited() -> None:
    exchanges = PendingRequests()
    for _ in range(MAX_ABANDONED + 10):
        exchanges.abandon(add_request(exchanges))
    assert not exchanges.was_abandoned(9)
    assert exchanges.was_abandoned(10)
    assert not exchanges.by_id
