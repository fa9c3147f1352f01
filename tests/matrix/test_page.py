"""The matrix page, and when the whole of it is good enough."""

from __future__ import annotations

from interop.page import CHAINS, Row, Verdict, keep_section, page, table, verdict_of_all, with_section

PASSED = Verdict("passed", "9 chunks")
FAILED = Verdict("failed", "exit code 1,\nnot 0")
ABSENT = Verdict("unadvertised")


def agents(good: int, bad: int) -> list[Row]:
    rows = [Row(f"good{n}", "1.0", {"prompt": PASSED, "load": ABSENT}) for n in range(good)]
    return rows + [Row(f"bad{n}", "2.0", {"prompt": PASSED, "load": FAILED}) for n in range(bad)]


CLIENT = Row("acpx", "0.1", {"exec": PASSED})


def test_a_cell_that_is_not_advertised_is_not_a_failure() -> None:
    assert Row("a", "1", {"prompt": PASSED, "load": ABSENT}).passes
    assert not Row("a", "1", {"prompt": PASSED, "load": FAILED}).passes


def test_an_agent_without_a_single_cell_does_not_pass() -> None:
    assert not Row("a", "1").passes
    assert not Row("a", "1", {"load": ABSENT}).passes
    assert not Row("a", "1", {"prompt": PASSED}, missing="no network").passes


def test_seven_of_nine_and_the_client_are_enough_and_less_is_not() -> None:
    assert verdict_of_all(agents(7, 2), CLIENT)[0]
    assert not verdict_of_all(agents(6, 3), CLIENT)[0]
    assert not verdict_of_all(agents(9, 0), Row("acpx", "0.1", {"exec": FAILED}))[0]


def test_too_few_agents_fail() -> None:
    assert not verdict_of_all(agents(1, 0), CLIENT)[0]


def test_the_page_has_versions_date_cells_and_why_something_failed() -> None:
    text = page(agents(8, 1), CLIENT, "2026-01-02", alone=True)
    assert "Run on 2026-01-02: 8 of 9 agents" in text
    assert "| good0 | 1.0 | ✓ 9 chunks | – |" in text
    assert "| bad0 | 2.0 | ✓ 9 chunks | ✗ |" in text
    assert "- bad0, load: exit code 1, not 0" in text
    assert "`dragoman run --json`" in text


def test_a_page_without_failures_lists_none() -> None:
    assert "failed\n" not in page(agents(9, 0), CLIENT, "2026-01-02", alone=True).partition("## Agents")[2]


def test_the_page_lists_what_could_not_be_installed() -> None:
    rows = [*agents(8, 0), Row("lost", "3.0", missing="npm ended with 1")]
    assert "- lost: not installed: npm ended with 1" in page(rows, CLIENT, "d", alone=False)


def test_the_table_has_a_line_for_each_row_and_aligned_columns() -> None:
    lines = table(agents(1, 1), ["prompt", "load"]).splitlines()
    assert len(lines) == 3
    assert lines[0].index("load") == lines[1].index("-") == lines[2].index("FAILED")


def test_a_section_of_another_program_is_replaced_and_kept() -> None:
    first = with_section("# Title\n\nwords\n", CHAINS, ["one"])
    assert first == f"# Title\n\nwords\n\n## {CHAINS}\n\none\n"
    assert with_section(first, CHAINS, ["two"]) == f"# Title\n\nwords\n\n## {CHAINS}\n\ntwo\n"
    between = with_section(f"# Title\n\n## {CHAINS}\n\none\n\n## Last\n\nend\n", CHAINS, ["two"])
    assert between == f"# Title\n\n## {CHAINS}\n\ntwo\n\n## Last\n\nend\n"
    assert keep_section("# New\n", first, CHAINS) == f"# New\n\n## {CHAINS}\n\none\n"
    assert keep_section("# New\n", "# Old\n", CHAINS) == "# New\n"
