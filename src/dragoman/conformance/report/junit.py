"""A report as JUnit XML for CI: a suite a chapter, a test case a requirement.

A failed MUST is a failure. A failed SHOULD or MAY, an inconclusive result and what does not apply are skipped tests.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from dragoman.conformance.report.model import Report, Row, escape_hidden, titles
from dragoman.conformance.verdict import Outcome

# How many frames a failure shows; the JSON and the page have all of them.
FRAMES = 20
_FOREIGN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_xml(report: Report) -> bytes:
    """Return the report as XML."""
    cut = "" if report.complete else " (ended early)"
    suites = Xml.Element("testsuites", name=f"dragoman check {report.side}{cut}", time=f"{report.seconds:.1f}")
    named = titles()
    for chapter in dict.fromkeys(row.chapter for row in report.rows):
        rows = [row for row in report.rows if row.chapter == chapter]
        failures = sum(row.is_broken for row in rows)
        skipped = sum(row.outcome is not Outcome.PASS and not row.is_broken for row in rows)
        suite = Xml.SubElement(
            suites,
            "testsuite",
            name=f"{chapter}: {named.get(chapter, chapter)}",
            tests=str(len(rows)),
            failures=str(failures),
            skipped=str(skipped),
            time=f"{sum(row.seconds for row in rows):.3f}",
        )
        for row in rows:
            _case(suite, row)
    Xml.indent(suites)
    return bytes(Xml.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def _case(suite: Xml.Element, row: Row) -> None:
    name = f"{row.id} {row.level}: {row.sentence}"
    case = Xml.SubElement(suite, "testcase", classname=row.chapter, name=name, time=f"{row.seconds:.3f}")
    if row.is_broken:
        failure = Xml.SubElement(case, "failure", message=_clean(row.why), type=row.level)
        failure.text = _clean("\n".join([f"{row.sentence} ({row.source})", row.why, "", *_frames(row)]))
    elif row.outcome is not Outcome.PASS:
        Xml.SubElement(case, "skipped", message=_clean(f"{row.outcome.value}: {row.why}"))


def _frames(row: Row) -> list[str]:
    proof = [each for each in row.evidence if each.marked] or row.evidence[-FRAMES:]
    return [f"{each.t:9.3f} {each.dir:4} {each.text}" for each in proof[:FRAMES]]


def _clean(text: str) -> str:
    return _FOREIGN.sub("?", escape_hidden(text))
