"""Write docs/pictures/demo.svg: a screen of `dragoman demo`, as it looks in a terminal. Called by `make picture`.

Starts the command on a pseudo-terminal, types into it, and draws the screen that pyte computes from the output. The
picture has its own background, so that it is readable on light and on dark pages.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyte

COLUMNS, LINES = 94, 28
COMMAND = "dragoman demo"
# What to wait for on the screen, and what to type then.
STEPS = (("Ask · Plain", "/edit notes.txt read see\r"), ("y/s/w/n?", "y"), ("Changed notes.txt.", ""))
TIMEOUT = 60.0  # seconds; longer than any step takes on a busy machine
SETTLE = 0.5  # seconds without output, after which the screen is complete

FONT = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
FONT_SIZE, WIDTH, HEIGHT, MARGIN, TITLE_BAR = 14, 8.43, 19, 18, 34
BACKGROUND, TITLE_COLOR, BORDER, TEXT = "#1b1f27", "#8b93a1", "#3a404c", "#d7dae0"
COLORS = {
    "default": TEXT, "black": "#3f4451", "red": "#f07178", "green": "#9ece6a", "brown": "#e0af68", "blue": "#7aa2f7",
    "magenta": "#c792ea", "cyan": "#6ec8d2", "white": TEXT, "brightblack": TITLE_COLOR,
}  # fmt: skip


def record(command: list[str], folder: str, screen: Any) -> None:
    """Run the command on a pseudo-terminal of the size of the screen, and follow the steps."""
    stream = pyte.ByteStream(screen)
    stream.feed(f"$ {COMMAND}\r\n".encode())
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(LINES), LANG="C.UTF-8")
        os.environ.update({f"XDG_{name}_HOME": folder for name in ("CONFIG", "STATE", "CACHE")})
        os.execvp(command[0], command)
    ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    screen.write_process_input = lambda answer: os.write(master, answer.encode())  # where is the cursor?
    try:
        for expected, keys in STEPS:
            read_until(master, stream, screen, expected)
            os.write(master, keys.encode())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)


def read_until(master: int, stream: Any, screen: Any, expected: str) -> None:
    """Read until a text is on the screen and the output pauses."""
    deadline = time.monotonic() + TIMEOUT
    while select.select([master], [], [], SETTLE)[0] or expected not in "\n".join(screen.display):
        if time.monotonic() > deadline:
            raise SystemExit(f"{expected!r} did not appear:\n" + "\n".join(screen.display))
        if select.select([master], [], [], SETTLE)[0]:
            stream.feed(os.read(master, 65536))


def runs(line: Any, columns: int) -> Iterator[tuple[int, str, Any]]:
    """Column, text and style of each run of characters that look the same; blank runs are left out."""
    for _, cells in groupby(range(columns), lambda column: line[column][1:]):
        group = list(cells)
        text = "".join(line[column].data for column in group)
        if text.strip():
            begin = len(text) - len(text.lstrip())
            yield group[begin], text.strip(), line[group[0]]


def color(name: str) -> str:
    """A color of pyte, by its name or as six hex digits, as the picture shows it."""
    return COLORS.get(name) or COLORS.get(name.removeprefix("bright"), f"#{name}")


def draw(screen: Any, title: str) -> str:
    """The screen as SVG, down to its last line with text."""
    lines = max((row for row, text in enumerate(screen.display) if text.strip()), default=0) + 1
    width, height = round(screen.columns * WIDTH + 2 * MARGIN), TITLE_BAR + lines * HEIGHT + MARGIN
    texts = []
    for row in range(lines):
        for column, text, style in runs(screen.buffer[row], screen.columns):
            attributes = f'x="{MARGIN + column * WIDTH:.1f}" y="{TITLE_BAR + row * HEIGHT + FONT_SIZE}"'
            attributes += f' textLength="{len(text) * WIDTH:.1f}" fill="{color(style.fg)}"'
            attributes += ' font-weight="bold"' * style.bold + ' font-style="italic"' * style.italics
            texts.append(f"<text {attributes}>{escape(text)}</text>")
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
            f'  role="img" font-family="{FONT}" font-size="{FONT_SIZE}" xml:space="preserve">',
            f"<title>{escape(title)}</title>",
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"',
            f'  fill="{BACKGROUND}" stroke="{BORDER}"/>',
            f'<text x="{width / 2}" y="22" text-anchor="middle" fill="{TITLE_COLOR}">{escape(title)}</text>',
            *texts,
            "</svg>\n",
        )
    )


def main() -> None:
    """Write the picture."""
    screen = pyte.Screen(COLUMNS, LINES)
    with tempfile.TemporaryDirectory() as folder:
        record([sys.executable, "-m", *COMMAND.split()], folder, screen)
    file = Path(__file__).parents[1] / "pictures" / "demo.svg"
    file.parent.mkdir(exist_ok=True)
    file.write_text(draw(screen, COMMAND), encoding="utf-8")


if __name__ == "__main__":
    main()
