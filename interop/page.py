"""The matrix as a table for the terminal and as the page docs/matrix.md. Pure: rows in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ENOUGH = 7  # agents whose every advertised cell must pass

CHAINS = "Chains, with the official Rust conductor and its proxies"  # the section that interop/chains.py writes

WORDS = {"passed": "ok", "failed": "FAILED", "unadvertised": "-"}
MARKS = {"passed": "✓", "failed": "✗", "unadvertised": "–"}


@dataclass
class Verdict:
    """The result of one cell: passed, failed or unadvertised, and a short note."""

    word: str
    note: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether it passed."""
        return self.word == "passed"

    @property
    def progress_line(self) -> str:
        """The verdict as a line of progress."""
        return f"{WORDS[self.word]:6} {self.note} ({self.seconds:.0f} s)".replace("  (", " (")


@dataclass
class Row:
    """One counterpart: name, version, and its cells by title; `missing` says why it could not be installed."""

    name: str
    version: str
    cells: dict[str, Verdict] = field(default_factory=dict)
    missing: str = ""
    introduced: str = ""

    @property
    def passes(self) -> bool:
        """Whether every advertised cell passed, and there is at least one."""
        run = [verdict for verdict in self.cells.values() if verdict.word != "unadvertised"]
        return bool(run) and not self.missing and all(verdict.passed for verdict in run)


def table(rows: Sequence[Row], titles: Sequence[str]) -> str:
    """The matrix with aligned columns."""
    lines = [["counterpart", "version", *titles]]
    for row in rows:
        words = [WORDS[row.cells[title].word] if title in row.cells else "?" for title in titles]
        lines.append([row.name, row.version, *words])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def verdict_of_all(agents: Sequence[Row], client: Row) -> tuple[bool, str]:
    """Whether enough agents pass, and a summary in one line."""
    count = sum(row.passes for row in agents)
    good = count >= ENOUGH and client.passes
    summary = f"{count} of {len(agents)} agents pass every cell they advertise ({ENOUGH} are needed); "
    return good, summary + f"{client.name} {'passes' if client.passes else 'does not pass'}"


def page(agents: Sequence[Row], client: Row, date: str, *, alone: bool) -> str:
    """The text of the page."""
    _, summary = verdict_of_all(agents, client)
    titles = list(dict.fromkeys(title for row in agents for title in row.cells))
    network = "in a network that has only loopback" if alone else "with proxies that point to a closed port"
    parts = [
        "# Real agents and a real client",
        "",
        "Written by `make interop`; do not edit.",
        "",
        "Each agent is installed as its users install it. It runs with its own home directory,",
        f"{network}, and uses a fake model of ours. `dragoman run --json` sends the",
        "prompts, and its policy decides what the agent may do. A cell passes only if the turn ends as expected, the",
        "log is complete, and no process is left. The checks are in [interop/cells.py](../interop/cells.py) and",
        "[interop/acpx.py](../interop/acpx.py).",
        "",
        f"Run on {date}: {summary}.",
        "",
        "## Agents, used by Dragoman",
        "",
        *markdown_table(agents, titles),
        "",
        "✓ passed, ✗ failed, – not advertised by `initialize`. If an agent supports both, the cell load hides `resume`",
        "from the run, which would otherwise use it.",
        "",
        f"## {client.name}, using `dragoman agent everything`",
        "",
        *markdown_table([client], list(client.cells)),
        "",
    ]
    if failures := unmet([*agents, client]):
        parts += ["## What failed", "", *failures, ""]
    return "\n".join(parts)


def with_section(page: str, title: str, lines: Sequence[str]) -> str:
    """The page with this section, which replaces one of the same title."""
    start, end = _section(page, title)
    text = "\n".join([f"## {title}", "", *lines, ""])
    before, after = page[:start].rstrip("\n"), page[end:]
    return f"{before}\n\n{text}" + (f"\n{after}" if after else "")


def keep_section(new: str, old: str, title: str) -> str:
    """A new page with a section of the old one, if it has it: another program writes that."""
    start, end = _section(old, title)
    return with_section(new, title, old[start:end].rstrip("\n").split("\n")[2:]) if start < end else new


def _section(page: str, title: str) -> tuple[int, int]:
    """Where a section begins and ends; at the end of the page if it has none."""
    start = page.find(f"## {title}\n")
    if start < 0:
        return len(page), len(page)
    end = page.find("\n## ", start + 3)
    return start, len(page) if end < 0 else end + 1


def markdown_table(rows: Sequence[Row], titles: Sequence[str], second: str = "version") -> list[str]:
    """The lines of a table; `second` is the heading of the second column."""
    lines = [f"| | {second} | {' | '.join(titles)} |", f"|---|---|{'---|' * len(titles)}"]
    for row in rows:
        cells = [_cell(row.cells.get(title)) for title in titles]
        lines.append(f"| {row.name} | {row.version} | {' | '.join(cells)} |")
    return lines


def _cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return "?"
    note = f" {verdict.note}" if verdict.passed and verdict.note else ""
    return f"{MARKS[verdict.word]}{note}".replace("|", "\\|")


def unmet(rows: Sequence[Row]) -> list[str]:
    """A line for each counterpart that is missing, and for each cell that failed."""
    lines = [f"- {row.name}: not installed: {_one_line(row.missing)}" for row in rows if row.missing]
    for row in rows:
        for title, verdict in row.cells.items():
            if verdict.word == "failed":
                lines.append(f"- {row.name}, {title}: {_one_line(verdict.note)}")
    return lines


def _one_line(text: str) -> str:
    return " ".join(text.split())
