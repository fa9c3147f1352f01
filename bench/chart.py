"""Draws the chart of the README: how many times as fast as the official SDKs, on a logarithmic scale, as SVG. Pure."""

from math import log10
from xml.sax.saxutils import escape

from bench.compare import more_is_better
from bench.rows import PEERS, ROWS
from bench.table import Measurements, middle

# The rows that people ask about first, and what they are called here.
BARS = {
    ("stream", "messages_per_second"): "50,000 updates over stdio",
    ("remote-ws", "messages_per_second"): "50,000 updates over WebSocket",
    ("remote-http", "messages_per_second"): "50,000 updates over HTTP",
    ("flight", "requests_per_second"): "64 requests in flight",
    ("ask", "p50_us"): "a single request",
    ("sessions", "time_ms"): "1,000 sessions at once",
    ("start", "time_ms"): "start to the first answer",
    ("import", "total_ms"): "import",
}
NAMES = {"py": "Python SDK", "ts": "TypeScript SDK", "rust": "Rust SDK"}
COLORS = {"py": "#3776ab", "ts": "#7a6cf0", "rust": "#c2571a"}

WIDTH, LABELS, RIGHT = 760, 220, 56
BAR, GAP, TOP = 13, 14, 64
LARGEST = 100.0  # the right end of the scale
GRID = (1, 3, 10, 30, 100)


def chart(measurements: Measurements) -> str:
    """The chart of what was measured; only rows and SDKs with figures are drawn."""
    groups = [(title, found) for (job, figure), title in BARS.items() if (found := _ratios(measurements, job, figure))]
    height = TOP + sum(len(ratios) * BAR + GAP for _, ratios in groups) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img" aria-labelledby="t">',
        '<title id="t">How many times as fast as the official SDKs Dragoman is</title>',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        '<text x="16" y="24" font-size="14" font-weight="600" fill="#1c2330">Dragoman, times as fast as …</text>',
        *_legend(),
        *_grid(height),
    ]
    y = float(TOP)
    for title, ratios in groups:
        middle_y = y + len(ratios) * BAR / 2 + 4
        parts.append(
            f'<text x="{LABELS - 10}" y="{middle_y:.0f}" text-anchor="end" fill="#1c2330">{escape(title)}</text>'
        )
        for kind, ratio in ratios:
            parts += _bar(kind, ratio, y)
            y += BAR
        y += GAP
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ratios(measurements: Measurements, job: str, figure: str) -> list[tuple[str, float]]:
    row = next(row for row in ROWS if (row.job, row.figure) == (job, figure))
    ours = middle(measurements, job, "ours", figure)
    found = []
    for kind in PEERS:
        theirs = middle(measurements, job, kind, figure)
        if ours and theirs:
            found.append((kind, ours / theirs if more_is_better(row) else theirs / ours))
    return found


def _x(ratio: float) -> float:
    """Where a ratio is on the scale, which begins at a third."""
    low, high = log10(1 / 3), log10(LARGEST)
    share = (log10(max(ratio, 1 / 3)) - low) / (high - low)
    return LABELS + min(share, 1.0) * (WIDTH - LABELS - RIGHT)


def _legend() -> list[str]:
    parts, x = [], 260
    for kind, name in NAMES.items():
        parts.append(f'<rect x="{x}" y="14" width="12" height="12" rx="2" fill="{COLORS[kind]}"/>')
        parts.append(f'<text x="{x + 18}" y="24" fill="#1c2330">{name}</text>')
        x += 130
    return parts


def _grid(height: int) -> list[str]:
    parts = []
    for mark in GRID:
        x, color = _x(mark), "#8a93a3" if mark == 1 else "#e3e7ee"
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 12}" x2="{x:.1f}" y2="{height - 8}" stroke="{color}"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP - 18}" text-anchor="middle" fill="#5b6576">{mark}x</text>')
    return parts


def _bar(kind: str, ratio: float, y: float) -> list[str]:
    start, end = sorted((_x(1), _x(ratio)))
    shown = f"{ratio:.{0 if ratio >= 10 else 1 if ratio >= 0.1 else 2}f}x"
    return [
        f'<rect x="{start:.1f}" y="{y:.0f}" width="{max(end - start, 1):.1f}" height="{BAR - 2}" '
        f'fill="{COLORS[kind]}"/>',
        f'<text x="{end + 4:.1f}" y="{y + BAR - 3:.0f}" font-size="10" fill="#5b6576">{shown}</text>',
    ]
