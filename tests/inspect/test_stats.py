"""The fast statistics agree with a slow count."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.reader import RecordingReader, open_recording, read_blocks
from dragoman.inspect.stats import Distribution, RecordingStats
from tests.inspect.conversation import RECORDINGS, TALK, lines


def counted(*blocks: list[bytes]) -> RecordingStats:
    figures = RecordingStats()
    figures.count(blocks)
    return figures


def test_messages_sizes_and_latencies_are_counted_by_method() -> None:
    figures = counted(lines())
    assert dict(figures.frames) == {"c2a": 4, "a2c": 8}
    prompt = figures.methods["c2a", "session/prompt"]
    assert (prompt.count, prompt.requests, prompt.latency.quantile(0.5)) == (1, 1, 7000 >> 4 << 4)
    assert figures.methods["a2c", "session/update agent_message_chunk"].count == 2
    assert figures.stop_reasons == Counter({"end_turn": 1})
    assert (figures.first_time, figures.last_time) == (1000, 12000)


def test_one_invalid_line_does_not_change_the_count_of_the_others() -> None:
    whole = lines()
    figures = counted([*whole[:5], b"noise\n", b'{"t":5,"dir":"a2c","raw":"Loading"}\n', *whole[5:]])
    plain = counted(whole)
    assert {key: each.count for key, each in figures.methods.items()} == {
        key: each.count for key, each in plain.methods.items()
    }
    assert (figures.noise, len(figures.reader.problems), figures.reader.problems[0].line) == (1, 1, 6)


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.ndjson")), ids=lambda path: path.stem)
def test_the_statistics_agree_with_the_analysis(path: Any) -> None:
    figures, reader, observer = RecordingStats(), RecordingReader(), Analyzer()
    with open_recording(str(path)) as file:
        figures.count(read_blocks(file, figures.reader))
    events = [observer.analyze_line(each) for each in reader.read_file(str(path))]
    assert figures.frames == Counter(event.direction for event in events)
    requests = Counter(event.wire_method for event in events if event.kind == "request")
    assert requests == Counter(
        {name: each.requests for (_, name), each in figures.methods.items() if each.requests and " " not in name}
    )
    assert figures.noise == sum(event.kind == "noise" for event in events)
    assert sum(figures.unanswered.values()) == len(observer.pending)


@given(st.lists(st.integers(0, 10_000_000), min_size=1, max_size=200))
def test_percentiles_are_right_within_half_a_percent(values: list[int]) -> None:
    spread = Distribution()
    for value in values:
        spread.add(value)
    ordered = sorted(values)
    found = spread.quantile(0.5)
    assert found is not None
    real = ordered[-(-len(ordered) // 2) - 1]
    assert real * 0.995 - 1 <= found <= real * 1.005 + 1


def test_frames_of_bare_messages_are_counted_too() -> None:
    import json

    figures = counted([json.dumps(message).encode() + b"\n" for _, message in TALK])
    assert figures.methods["c2a", "session/prompt"].requests == 1
    assert figures.stop_reasons == Counter({"end_turn": 1})
