"""A comparison of agents as one self-contained HTML page: a table, and the diffs next to each other by file.

Everything from the agents is escaped. The page has no script and loads nothing.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from dragoman.bridge.team.comparison import AgentRun

_HEADER = re.compile(r"^diff --git a/.* b/(?P<path>.*)$")
_CLASSES = {"+": "add", "-": "del", "@": "hunk"}
_TESTS = {None: "–", True: "pass", False: "fail"}
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u2028-\u202f\u2066-\u2069\ufeff]")


def page(title: str, about: str, runs: Sequence[AgentRun], winner: str | None) -> str:
    """Return the page."""
    style = _part("style.css")
    parts = {
        "POLICY": f"default-src 'none'; style-src '{_digest(style)}'; base-uri 'none'",
        "STYLE": style,
        "TITLE": _safe(title),
        "ABOUT": _safe(about),
        "TABLE": "".join(_row(run, run.agent == winner) for run in runs),
        "BODY": "".join(_sections(runs)),
    }
    head, *rest = _part("template.html").split("{{")
    return head + "".join(parts[name] + after for name, after in (piece.split("}}", 1) for piece in rest))


def _row(run: AgentRun, is_winner: bool) -> str:
    cells = [
        f"{run.agent}{' (winner)' if is_winner else ''}",
        run.error or run.stop_reason or run.state,
        f"{len(run.files)} file{'' if len(run.files) == 1 else 's'}, +{run.added} −{run.removed}",
        _TESTS[run.tests],
        f"{run.tokens:,}" if run.tokens else "–",
        f"{run.cost:.4g}" if run.cost else "–",
        f"{run.seconds:.1f} s",
        run.branch or "–",
    ]
    kinds = {3: {True: "pass", False: "fail"}.get(run.tests, "")} if run.tests is not None else {}
    columns = (f'<td class="{kinds.get(number, "")}">{_safe(cell)}</td>' for number, cell in enumerate(cells))
    return f"<tr>{''.join(columns)}</tr>"


def _sections(runs: Sequence[AgentRun]) -> Iterator[str]:
    """Return a section for each file that any agent changed, with a column for each agent; then their answers."""
    diffs = [split_diff(run.diff) for run in runs]
    for path in sorted({path for diff in diffs for path in diff}):
        columns = "".join(
            f"<div class=column><h3>{_safe(run.agent)}</h3>{_diff(diff.get(path))}</div>"
            for run, diff in zip(runs, diffs, strict=True)
        )
        yield f"<section><h2>{_safe(path)}</h2><div class=columns>{columns}</div></section>"
    answers = "".join(
        f"<div class=column><h3>{_safe(run.agent)}</h3><pre>{_safe(run.text)}</pre></div>" for run in runs
    )
    yield f"<section><h2>Answers</h2><div class=columns>{answers}</div></section>"


def _diff(lines: Iterable[str] | None) -> str:
    if lines is None:
        return "<p class=none>not changed</p>"
    spans = (f'<span class="{_CLASSES.get(line[:1], "")}">{_safe(line) or " "}</span>' for line in lines)
    return f"<pre>{''.join(spans)}</pre>"


def split_diff(patch: str) -> dict[str, list[str]]:
    """Return the hunks of a patch by file."""
    found: dict[str, list[str]] = {}
    lines: list[str] | None = None
    in_hunk = False
    for line in patch.split("\n"):
        if header := _HEADER.match(line):
            lines, in_hunk = found.setdefault(header["path"], []), False
        elif lines is not None and (in_hunk or line.startswith(("@@", "Binary files"))):
            in_hunk = True
            lines.append(line)
    return found


def _safe(text: str) -> str:
    """Return text for HTML; characters that cannot be seen are shown by their numbers."""
    return escape(_HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def _part(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
