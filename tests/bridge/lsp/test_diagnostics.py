"""Diagnostics as values: read leniently, compared across moved lines, formatted within bounds."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.lsp.diagnostics import (
    MAX_LINES,
    MAX_PER_FILE,
    Diagnostic,
    FileReport,
    format_report,
    new_diagnostics,
    read_diagnostics,
    report_json,
)
from dragoman.bridge.lsp.positions import TextIndex

INDEX = TextIndex("one\ntwo\nthree\n")


def diagnostic(line: int, message: str = "wrong", **more: Any) -> Diagnostic:
    """Return a diagnostic."""
    values: dict[str, Any] = {
        "path": "/p/a.py",
        "line": line,
        "column": 1,
        "end_line": line,
        "end_column": 2,
        "source": "ty",
    }
    return Diagnostic(**values | {"message": message} | more)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["range", "start", "end", "line", "character", "severity", "code", "message", "value"]),
            inner,
        )
    ),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=5) | JSON)
def test_no_answer_of_a_server_breaks_the_reader(items: Any) -> None:
    for each in read_diagnostics(items, "/p/a.py", INDEX, "x"):
        assert 1 <= each.line <= 4
        assert each.severity in (1, 2, 3, 4)


def test_a_moved_problem_is_not_new_and_a_second_one_of_its_kind_is() -> None:
    before = [diagnostic(3), diagnostic(9, "other")]
    after = [diagnostic(5), diagnostic(9, "other"), diagnostic(12)]
    assert new_diagnostics(before, after) == {2}
    assert new_diagnostics([diagnostic(12)], [diagnostic(5), diagnostic(12)]) == {0}


def test_errors_come_first_and_what_is_left_out_is_counted() -> None:
    many = [diagnostic(line, severity=2) for line in range(1, 31)] + [diagnostic(40, severity=1, code="E1")]
    text = format_report([FileReport(path="/p/a.py", after=many, before=[])], "/p")
    lines = text.splitlines()
    assert lines[1] == "a.py:40:1 new error ty(E1): wrong"
    assert (len(lines), lines[-1]) == (MAX_LINES + 2, "a.py: 11 more")


def test_without_problems_nothing_is_said_and_late_servers_are_named() -> None:
    assert format_report([FileReport(path="/p/a.py", after=[], before=[])], "/p") == ""
    text = format_report([FileReport(path="/q/a.py", late=["pyright"])], "/p")
    assert text == "Diagnostics:\n/q/a.py: diagnostics of pyright are not ready yet"


def test_other_files_show_only_new_errors() -> None:
    other = FileReport(
        path="/p/b.py", before=[diagnostic(1)], after=[diagnostic(1), diagnostic(2, "n")], is_written=False
    )
    assert format_report([other], "/p").splitlines()[1:] == ["a.py:2:1 new error ty: n"]


def test_a_flood_of_diagnostics_is_cut() -> None:
    assert len(read_diagnostics([{"message": "x"}] * 10_000, "/p/a.py", INDEX, "x")) == MAX_PER_FILE


def test_programs_get_all_of_them_with_their_state() -> None:
    report = report_json([FileReport(path="/p/a.py", after=[diagnostic(1)], before=[], late=["x"])])
    assert report[0]["late"] == ["x"]
    assert report[0]["diagnostics"][0] | {"message": ""} == diagnostic(1, "").to_json(True)
