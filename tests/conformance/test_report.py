"""Reports as a page, for CI and against a baseline, whatever a peer wrote."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path
from xml.etree import ElementTree as Xml

import msgspec
import pytest

from dragoman.cli.check.options import StopSignal, run_check
from dragoman.conformance.report import baseline, junit, model
from dragoman.conformance.report.model import Report
from dragoman.conformance.report.page import page
from dragoman.conformance.report.text import lines
from dragoman.conformance.requirement import requirements
from dragoman.conformance.verdict import Evidence, Outcome, Verdict
from dragoman.errors import ConfigFault
from tests.conformance.checked_agents import faulty_agent
from tests.conformance.faults.fault import faults

HOSTILE = 'an error </pre><script>alert(1)</script> \x1b[31m ‮ "quoted" & more'


def report_of(**outcomes: Outcome) -> Report:
    """Return a report with these outcomes; `rpc_03=...` stands for agent.rpc.03."""
    verdicts = [
        Verdict(
            requirement=f"agent.{name.replace('_', '.')}",
            outcome=outcome,
            why=HOSTILE if outcome is not Outcome.PASS else "",
            evidence=[Evidence(t=0.5, dir="in", text=HOSTILE, size=9999, marked=True)],
            seconds=0.25,
        )
        for name, outcome in outcomes.items()
    ]
    return model.report("agent", ["an-agent", "<b>"], "v1", verdicts, 3.0)


ONE_OF_EACH = report_of(
    rpc_01=Outcome.PASS,
    rpc_03=Outcome.FAIL,
    rpc_11=Outcome.FAIL,
    init_17=Outcome.NOT_APPLICABLE,
    order_04=Outcome.INCONCLUSIVE,
)


def test_a_page_shows_hostile_text_and_runs_none_of_it() -> None:
    text = page(ONE_OF_EACH)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "\x1b" not in text
    assert "‮" not in text
    assert "<U+001B>".replace("<", "&lt;").replace(">", "&gt;") in text
    assert "Content-Security-Policy" in text
    assert "default-src 'none'" in text
    assert text.count("<script>") == 1
    for word in ("http://", "https://", "{{"):
        assert word not in text


def test_a_page_opens_broken_requirements_and_marks_the_proof() -> None:
    text = page(ONE_OF_EACH)
    assert text.count("<details") == 5
    assert text.count(" open>") == 1  # a SHOULD that failed is not broken
    assert 'class="in proof"' in text
    assert "9999 characters in all" in text


def test_junit_fails_on_musts_alone() -> None:
    suites = Xml.fromstring(junit.to_xml(ONE_OF_EACH))
    cases = {case.get("name", "").split()[0]: case for case in suites.iter("testcase")}
    assert len(cases) == 5
    assert [id for id, case in cases.items() if case.find("failure") is not None] == ["agent.rpc.03"]
    skipped = [id for id, case in cases.items() if case.find("skipped") is not None]
    assert skipped == ["agent.rpc.11", "agent.init.17", "agent.order.04"]
    failure = cases["agent.rpc.03"].find("failure")
    assert failure is not None
    assert "alert(1)" in (failure.text or "")


def test_a_report_lists_the_prompts_that_were_missing() -> None:
    purposes = {"agent.cancel.01": "slow", "agent.cancel.02": "slow", "agent.files.08": "run"}
    verdicts = [
        Verdict(
            requirement=id,
            outcome=Outcome.INCONCLUSIVE,
            why=f"it was over; add a prompt for {purpose!r} with --script",
            evidence=[],
            seconds=0.25,
        )
        for id, purpose in purposes.items()
    ]
    texts = [line.text for line in lines(model.report("agent", ["an-agent"], "v1", verdicts, 3.0))]
    assert "Prompts to write into the file of --script, if the agent can do it: slow (2), run (1)" in texts
    assert not any(line.text.startswith("Prompts to write") for line in lines(ONE_OF_EACH))


def test_a_baseline_shows_what_got_worse_and_better(tmp_path: Path) -> None:
    before = report_of(rpc_01=Outcome.FAIL, rpc_02=Outcome.PASS, rpc_03=Outcome.PASS, rpc_04=Outcome.NOT_APPLICABLE)
    file = tmp_path / "known.json"
    file.write_bytes(model.to_json(before))
    now = report_of(
        rpc_01=Outcome.PASS, rpc_02=Outcome.FAIL, rpc_03=Outcome.INCONCLUSIVE, rpc_04=Outcome.PASS, rpc_05=Outcome.FAIL
    )
    known = baseline.read_baseline(str(file), "agent")
    assert [row.id for row in baseline.worse(known, now)] == ["agent.rpc.02", "agent.rpc.03"]
    assert [row.id for row in baseline.better(known, now)] == ["agent.rpc.01"]
    assert [row.id for row in baseline.new_failures(known, now)] == ["agent.rpc.05"]


def test_a_report_of_another_check_is_no_baseline(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    file.write_bytes(model.to_json(report_of(rpc_01=Outcome.PASS)))
    with pytest.raises(ConfigFault, match=r"is a report about an agent; compare with one of `dragoman check client`"):
        baseline.read_baseline(str(file), "client")
    with pytest.raises(ConfigFault, match="is about the dialect v1, and this peer speaks crow"):
        baseline.require_same_dialect(baseline.read_baseline(str(file), "agent"), "crow", str(file))
    file.write_bytes(model.to_json(msgspec.structs.replace(report_of(rpc_01=Outcome.PASS), complete=False)))
    with pytest.raises(ConfigFault, match="ended early"):
        baseline.read_baseline(str(file), "agent")


def test_a_failure_that_is_not_in_the_baseline_fails_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    before = report_of(rpc_01=Outcome.PASS)
    options = Namespace(jobs=1, json=None, junit=None, html=None, baseline="known.json")
    agent, wanted = faulty_agent("v1", faults()["agent.rpc.03"]), [requirements()["agent.rpc.03"]]

    async def work() -> int:
        return await run_check(agent, wanted, options, ["an-agent"], "agent", StopSignal(), before)

    assert asyncio.run(work()) == 1
    assert "1 worse (1 not in the baseline), 0 better" in capsys.readouterr().out


def test_a_check_without_pass_or_fail_is_not_a_success() -> None:
    for report in (report_of(), report_of(rpc_01=Outcome.INCONCLUSIVE, rpc_02=Outcome.NOT_APPLICABLE)):
        text = "\n".join(line.text for line in lines(report))
        assert "kept" not in text
        assert "nothing is known" in text


def test_a_reason_of_several_lines_stays_in_its_column() -> None:
    verdict = Verdict(requirement="agent.rpc.03", outcome=Outcome.FAIL, why="it crashed:\nTraceback\n  File")
    text = [line.text for line in lines(model.report("agent", ["an-agent"], "v1", [verdict], 1.0))]
    start = next(number for number, line in enumerate(text) if "it crashed" in line)
    assert [line[:23].strip() for line in text[start : start + 4]] == ["", "", "", ""]
    assert text[start + 3].strip() == "(docs/protocol/errors.md#unknown-methods)"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 1}'])
def test_a_wrong_baseline_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "known.json"
    file.write_text(text)
    with pytest.raises(ConfigFault, match=r"known\.json is not a report"):
        model.read(str(file))


def test_no_report_contains_a_secret() -> None:
    """Secrets of the command line, of the environment, or in the peer's messages."""
    command = ["env", "OPENAI_API_KEY=short", "agent", "--token", "spoken-canary"]
    reply = '{"error": "spoken-canary and environment-canary are no good"}'
    evidence = [Evidence(t=0.5, dir="in", text=reply, size=len(reply), marked=True)]
    failed = Verdict(requirement="agent.rpc.03", outcome=Outcome.FAIL, why=reply, evidence=evidence)
    report = model.report("agent", command, "v1", [failed], 1.0, secrets=["environment-canary"])
    assert report.peer == ["env", "OPENAI_API_KEY=[redacted]", "agent", "--token", "[redacted]"]
    summary = "\n".join(line.text for line in lines(report))
    for text in (model.to_json(report).decode(), junit.to_xml(report).decode(), page(report), summary):
        assert "canary" not in text
        assert "are no good" in text
    assert evidence[0].text == reply


def test_the_summary_shows_failures_with_their_proof() -> None:
    text = "\n".join(line.text for line in lines(ONE_OF_EACH))
    assert "agent.rpc.03" in text
    assert "1 MUST broken" in text
    assert "1 passed, 2 failed, 1 inconclusive, 1 not applicable" in text


def test_failures_come_first() -> None:
    text = [line.text for line in lines(ONE_OF_EACH)]
    assert text[0] == "Broken (MUST)"
    assert text[1].split()[0] == "agent.rpc.03"
    html = page(ONE_OF_EACH)
    places = [html.index(f"<code>{id}</code>") for id in ("agent.rpc.03", "agent.rpc.11", "agent.rpc.01")]
    assert places == sorted(places)
