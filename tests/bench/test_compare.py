"""Which rows count as worse than the committed results, the chart, and the counts of callgrind."""

from xml.etree import ElementTree

from bench import instructions
from bench.chart import chart
from bench.compare import more_is_better, regressions
from bench.rows import ROWS, Row, Target
from bench.soak import Sample, growth
from bench.table import Measurements

RATE = Row("streaming", "stream", "rate", "messages/s")
COST = Row("latency", "ask", "p50_us", "µs")


def runs(job: str, figure: str, ours: list[float], py: list[float]) -> Measurements:
    return {(job, "ours"): [{figure: value} for value in ours], (job, "py"): [{figure: value} for value in py]}


def test_a_slower_machine_alone_is_no_regression() -> None:
    before = runs("stream", "rate", [1000, 1010, 990], [100, 101, 99])
    after = runs("stream", "rate", [500, 505, 495], [50, 50.5, 49.5])
    assert regressions([RATE], before, after) == []


def test_a_rate_that_falls_beyond_the_spread_is_reported() -> None:
    before = runs("stream", "rate", [1000, 1010, 990], [100, 101, 99])
    after = runs("stream", "rate", [800, 805, 795], [100, 101, 99])
    assert regressions([RATE], before, after) == ["streaming, messages/s (stream): -20% against the committed results"]


def test_a_change_within_the_spread_of_the_runs_is_not_reported() -> None:
    before = runs("ask", "p50_us", [100, 140, 70], [100, 100, 100])
    after = runs("ask", "p50_us", [125, 150, 90], [100, 100, 100])
    assert regressions([COST], before, after) == []


def test_what_was_not_measured_before_is_not_compared() -> None:
    assert regressions([RATE], {}, runs("stream", "rate", [1], [1])) == []


def test_more_is_better_for_rates_and_lower_bounds_only() -> None:
    assert more_is_better(RATE)
    assert not more_is_better(COST)
    assert more_is_better(Row("", "", "", "x", (Target("ours", "least", 1),)))


def test_the_chart_is_svg_with_a_bar_for_each_figure() -> None:
    figures = {"py": 10.0, "ts": 40.0, "rust": 5.0, "ours": 100.0}
    measured: Measurements = {("stream", kind): [{"messages_per_second": value}] for kind, value in figures.items()}
    drawn = ElementTree.fromstring(chart(measured))
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"10x", "2.5x", "20x"} <= set(texts)


def test_a_peer_that_is_faster_is_drawn_as_such() -> None:
    measured: Measurements = {("start", "rust"): [{"time_ms": 50.0}], ("start", "ours"): [{"time_ms": 100.0}]}
    assert "0.5x" in chart(measured)


def test_the_total_of_a_callgrind_file_is_read() -> None:
    assert instructions.read_total("version: 1\nevents: Ir\n\nfn=(1)\n12 5\n\ntotals: 12345\n") == 12345


def test_counts_are_shown_next_to_earlier_ones() -> None:
    shown = instructions.table({"stream": 110.0, "policy": 50.0}, {"stream": 100.0})
    assert "| 110 | 100 | +10.0% |" in shown
    assert "| 50 | – | – |" in shown


def test_every_row_says_which_direction_is_better() -> None:
    assert {row.title for row in ROWS if row.unit.endswith("/s") and not more_is_better(row)} == set()


def test_a_soak_compares_the_end_with_the_time_after_the_start() -> None:
    start = [Sample(0, 50.0, 100, 0)] * 2
    level = [Sample(1, 80.0, 200, 1)] * 8
    leaking = [Sample(number, 80.0 + number, 200 + number, number) for number in range(8)]
    assert growth(start + level) == (1.0, 1.0)
    assert min(growth(start + leaking)) > 1.02
