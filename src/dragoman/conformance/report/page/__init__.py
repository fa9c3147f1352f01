"""A report as one self-contained HTML page: failures first, then by chapter, each requirement with its evidence.

Everything from the peer is escaped. The page runs only its own script and loads nothing; it can be read without script.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from importlib.resources import files

from dragoman.conformance.report.model import Report, Row, escape_hidden, titles
from dragoman.conformance.verdict import Evidence, Outcome

# How much evidence the page shows of a requirement that passed. Failures are shown whole.
PASSED = 40

_WORDS = {
    Outcome.PASS: "pass",
    Outcome.FAIL: "fail",
    Outcome.NOT_APPLICABLE: "n/a",
    Outcome.INCONCLUSIVE: "inconclusive",
}
_ARROWS = {"out": "→", "in": "←", "note": "·"}


def page(report: Report) -> str:
    """Return the page."""
    style, script = _part("style.css"), _part("script.js")
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'"
    cut = "" if report.complete else ", ended early"
    parts = {
        "POLICY": policy,
        "STYLE": style,
        "SCRIPT": script,
        "TITLE": _safe(f"dragoman check {report.side}: {' '.join(report.peer)}"),
        "PEER": _safe(" ".join(report.peer)),
        "ABOUT": _safe(f"{report.side}, dialect {report.dialect}, {report.began}, {report.seconds:g} s{cut}"),
        "COUNTS": "".join(_count(report, outcome) for outcome in Outcome),
        "BODY": "".join(_sections(report)),
    }
    head, *rest = _part("template.html").split("{{")
    return head + "".join(parts[name] + after for name, after in (piece.split("}}", 1) for piece in rest))


def _count(report: Report, outcome: Outcome) -> str:
    many = report.counts()[outcome]
    return (
        f'<button type="button" class="{outcome.value}" data-only="{outcome.value}">{many} {_WORDS[outcome]}</button>'
    )


def _sections(report: Report) -> Iterator[str]:
    """Return the failures, each MUST before the others, then the rest by chapter."""
    failed = sorted((row for row in report.rows if row.outcome is Outcome.FAIL), key=lambda row: not row.is_broken)
    if failed:
        yield f"<section><h2>Failed</h2>{''.join(map(_row, failed))}</section>"
    rest = [row for row in report.rows if row.outcome is not Outcome.FAIL]
    for name in dict.fromkeys(row.chapter for row in rest):
        rows = "".join(_row(row) for row in rest if row.chapter == name)
        yield f"<section><h2>{_safe(titles().get(name, name))} <code>{_safe(name)}</code></h2>{rows}</section>"


def _row(row: Row) -> str:
    evidence = row.evidence if row.outcome is Outcome.FAIL else row.evidence[:PASSED]
    left = len(row.evidence) - len(evidence)
    more = f'<p class="why">{left} more frames are in the JSON report.</p>' if left else ""
    frames = "".join(_frame(each) for each in evidence)
    why = f'<p class="why">{_safe(row.why)}</p>' if row.why else ""
    opened = " open" if row.is_broken else ""
    return (
        f'<details class="{row.outcome.value} {row.level}" data-outcome="{row.outcome.value}"{opened}>'
        f'<summary><span class="mark">{_WORDS[row.outcome]}</span><code>{_safe(row.id)}</code>'
        f'<b class="level">{row.level}</b><span>{_safe(row.sentence)}</span></summary>'
        f'{why}<p class="source">{_safe(row.source)}, {row.seconds:g} s</p>'
        f'<ol class="frames">{frames}</ol>{more}</details>'
    )


def _frame(each: Evidence) -> str:
    cut = f" <i>… {each.size} characters in all</i>" if each.size > len(each.text) else ""
    mark = " proof" if each.marked else ""
    arrow = _ARROWS.get(each.dir, "")
    return (
        f'<li class="{_safe(each.dir)}{mark}"><time>{each.t:.3f}</time><span>{arrow}</span>'
        f"<pre>{_safe(each.text)}</pre>{cut}</li>"
    )


def _safe(text: str) -> str:
    return escape(escape_hidden(text))


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
