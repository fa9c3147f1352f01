"""How figures become lines of the bench's table."""

from bench.rows import JOBS, ROWS, Row, Target
from bench.table import Measurements, format_figure, middle, table

RATE = Row("streaming", "stream", "rate", "messages/s", (Target("py", "least", 8), Target("ts", "least", 6)))
COST = Row("memory", "stream", "memory", "x message", (Target("ours", "most", 4),))


def line(row: Row, measurements: Measurements) -> list[str]:
    return [cell.strip() for cell in table([row], measurements).splitlines()[2].strip("|").split("|")]


def rates(py: float, ts: float, ours: float) -> Measurements:
    return {
        ("stream", "py"): [{"rate": py}],
        ("stream", "ts"): [{"rate": ts}],
        ("stream", "ours"): [{"rate": ours}],
    }


def test_a_line_shows_figures_ratios_and_that_every_target_is_met() -> None:
    assert line(RATE, rates(10_000, 20_000, 123_456)) == [
        "streaming, messages/s", "123,000", "10,000 (12.35)", "20,000 (6.17)", "–", ">= 8x py, >= 6x ts", "yes",
    ]  # fmt: skip


def test_one_missed_target_of_two_is_a_miss() -> None:
    assert line(RATE, rates(10_000, 20_000, 110_000))[-1] == "**no**"


def test_the_median_of_the_runs_counts_not_the_best() -> None:
    runs: Measurements = {("stream", "py"): [{"rate": 1.0}, {"rate": 9.0}, {"rate": 3.0}]}
    assert middle(runs, "stream", "py", "rate") == 3.0


def test_a_failed_measurement_is_shown_as_failed_and_has_no_ratio() -> None:
    measurements = dict(rates(10_000, 20_000, 123_456))
    measurements["stream", "ts"] = ["fails: the message is too large"]
    cells = line(RATE, measurements)
    assert (cells[3], cells[6]) == ("fails", "yes")


def test_a_single_failed_run_fails_the_figure() -> None:
    runs: Measurements = {("stream", "py"): [{"rate": 1.0}, "fails: gone"]}
    assert middle(runs, "stream", "py", "rate") is None


def test_a_target_on_our_own_figure_needs_no_peer() -> None:
    measurements: Measurements = {("stream", "ours"): [{"memory": 4.5}]}
    assert line(COST, measurements) == ["memory, x message", "4.50", "<= 4", "**no**"]


def test_rows_without_peers_are_in_a_separate_table() -> None:
    measurements = dict(rates(10_000, 20_000, 123_456)) | {("host", "ours"): [{"memory": 4.5}]}
    alone = Row("hosting", "host", "memory", "KiB")
    beside, apart = table([alone, RATE], measurements).split("\n\n")
    assert ("streaming" in beside, "hosting" in beside) == (True, False)
    assert apart.splitlines()[-1] == "| hosting, KiB | 4.50 | – | – |"


def test_a_third_peer_has_a_column_if_it_was_measured() -> None:
    measurements = dict(rates(10_000, 20_000, 123_456)) | {("stream", "rust"): [{"rate": 50_000.0}]}
    assert line(RATE, measurements)[4] == "50,000 (2.47)"


def test_a_row_can_be_compared_with_another_job_of_the_peers() -> None:
    row = Row("relayed", "relay", "rate", "messages/s", (Target("py", "least", 3),), against="stream")
    measurements = dict(rates(10_000, 20_000, 120_000))
    measurements["relay", "ours"] = [{"rate": 31_000.0}]
    assert line(row, measurements)[1:4] == ["31,000", "10,000 (3.10)", "20,000 (1.55)"]


def test_an_uncompared_row_shows_figures_without_ratios() -> None:
    row = Row("real file", "stream", "rate", "µs", compared=False)
    assert line(row, rates(1, 2, 3))[1:] == ["3.00", "1.00", "2.00", "–", "–", "–"]


def test_figures_keep_three_digits() -> None:
    assert [format_figure(value) for value in (1_234_567, 12_345, 123.4, 12.34, 1.234)] == [
        "1,230,000", "12,300", "123", "12.3", "1.23",
    ]  # fmt: skip


def test_every_row_shows_a_job_that_is_measured() -> None:
    names = {job.name for job in JOBS}
    assert {row.job for row in ROWS} == names
    assert {row.against for row in ROWS} - {""} <= names
