"""Write the pictures in docs/pictures: screens of `dragoman demo` and `dragoman tui`, as they look in a terminal.
Called by `make picture`; with names, only those.

Starts the command on a pseudo-terminal, types into it, and draws the screen that pyte computes from the output. A
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
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import pyte


class Picture(NamedTuple):
    """A command, the size of its terminal, and the steps: what to wait for on the screen, and what to type then."""

    command: str  # as it is shown
    size: tuple[int, int]
    steps: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...] = ()  # more that is not shown
    is_light: bool = False


STORY = ("--", sys.executable, str(Path(__file__).parents[1] / "pictures" / "story_agent.py"))
BEGIN = ("● live", "Files without a newline at their end lose their last line. Find out why, and fix it.\r")
PICTURES = {
    "demo": Picture(
        "dragoman demo",
        (94, 28),
        (("Ask · Plain", "/edit notes.txt read see\r"), ("y/s/w/n?", "y"), ("Changed notes.txt.", "")),
    ),
    "tui": Picture("dragoman tui", (150, 40), (BEGIN, ("y  once", "")), ("--theme", "dark", *STORY)),
    "tui-light": Picture(
        "dragoman tui",
        (150, 40),
        (BEGIN, ("y  once", "y"), ("write the changelog next", "")),
        ("--theme", "light", *STORY),
        True,
    ),
    "tui-narrow": Picture("dragoman tui", (80, 24), (BEGIN, ("y  once", "")), ("--theme", "dark", *STORY)),
}
TIMEOUT = 60.0  # seconds; longer than any step takes on a busy machine
SETTLE = 0.5  # seconds, after which the screen is complete

FONT = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
FONT_SIZE, WIDTH, HEIGHT, MARGIN, TITLE_BAR = 14, 8.43, 19, 18, 34
BACKGROUND, TITLE_COLOR, BORDER, TEXT = "#0e1116", "#8b93a1", "#3a404c", "#d7dae0"
LIGHT_BACKGROUND, LIGHT_TEXT = "#fdfdfe", "#1f252d"
COLORS = {
    "default": TEXT, "black": "#3f4451", "red": "#f07178", "green": "#9ece6a", "brown": "#e0af68", "blue": "#7aa2f7",
    "magenta": "#c792ea", "cyan": "#6ec8d2", "white": TEXT, "brightblack": TITLE_COLOR,
}  # fmt: skip


def record(picture: Picture, folder: str, screen: Any) -> None:
    """Run the command on a pseudo-terminal of the size of the screen, and follow the steps."""
    columns, lines = picture.size
    command = [sys.executable, "-m", *picture.command.split(), *picture.arguments]
    stream = pyte.ByteStream(screen)
    stream.feed(f"$ {picture.command}\r\n".encode())
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm-256color", COLUMNS=str(columns), LINES=str(lines), LANG="C.UTF-8")
        os.environ.update(HOME=os.path.dirname(folder), COLORTERM="truecolor")
        os.environ.update({f"XDG_{name}_HOME": folder for name in ("CONFIG", "STATE", "CACHE")})
        os.execvp(command[0], command)
    ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    screen.write_process_input = lambda answer: os.write(master, answer.encode())  # where is the cursor?
    try:
        for expected, keys in picture.steps:
            read_until(master, stream, screen, expected)
            if len(keys) == 1:
                time.sleep(SETTLE)  # a question wants to be seen first
            os.write(master, keys.encode())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)


def read_until(master: int, stream: Any, screen: Any, expected: str) -> None:
    """Read until a text is on the screen, and a moment longer."""
    deadline, seen = time.monotonic() + TIMEOUT, 0.0
    while not seen or time.monotonic() - seen < SETTLE:
        if time.monotonic() > deadline:
            raise SystemExit(f"{expected!r} did not appear:\n" + "\n".join(screen.display))
        if select.select([master], [], [], SETTLE)[0]:
            stream.feed(os.read(master, 65536))
        if not seen and expected in "\n".join(screen.display):
            seen = time.monotonic()


def runs(line: Any, columns: int) -> Iterator[tuple[int, str, Any]]:
    """Column, text and style of each run of characters that look the same, blank ones only with a background."""
    for _, cells in groupby(range(columns), lambda column: line[column][1:]):
        group = list(cells)
        text = "".join(line[column].data for column in group)
        if text.strip() or line[group[0]].bg != "default" or line[group[0]].reverse:
            yield group[0], text, line[group[0]]


def color(name: str, default: str) -> str:
    """A color of pyte, by its name or as six hex digits, as the picture shows it."""
    if name == "default":
        return default
    return COLORS.get(name) or COLORS.get(name.removeprefix("bright"), f"#{name}")


def draw_run(row: int, column: int, text: str, style: Any, is_light: bool) -> Iterator[str]:
    """Yield the background and the text of one run."""
    colors = LIGHT_TEXT if is_light else TEXT, LIGHT_BACKGROUND if is_light else BACKGROUND
    front, back = color(style.fg, colors[0]), color(style.bg, colors[1])
    if style.reverse:
        front, back = back, front
    x, top = MARGIN + column * WIDTH, TITLE_BAR + row * HEIGHT
    if back != colors[1]:
        yield f'<rect x="{x:.1f}" y="{top - 1}" width="{len(text) * WIDTH + 0.3:.1f}" height="{HEIGHT}" fill="{back}"/>'
    begin = len(text) - len(text.lstrip())
    if text.strip():
        attributes = f'x="{x + begin * WIDTH:.1f}" y="{top + FONT_SIZE}"'
        attributes += f' textLength="{len(text.strip()) * WIDTH:.1f}" fill="{front}"'
        attributes += ' font-weight="bold"' * style.bold + ' font-style="italic"' * style.italics
        yield f"<text {attributes}>{escape(_with_wide_blanks(text.strip()))}</text>"


def _with_wide_blanks(text: str) -> str:
    """Keep blanks in a row: some browsers join them."""
    return text.replace("  ", " \xa0")


def draw(screen: Any, title: str, *, is_light: bool = False) -> str:
    """The screen as SVG, down to its last line with text."""
    lines = max((row for row, text in enumerate(screen.display) if text.strip()), default=0) + 1
    width, height = round(screen.columns * WIDTH + 2 * MARGIN), TITLE_BAR + lines * HEIGHT + MARGIN
    parts = [
        part
        for row in range(lines)
        for column, text, style in runs(screen.buffer[row], screen.columns)
        for part in draw_run(row, column, text, style, is_light)
    ]
    back = LIGHT_BACKGROUND if is_light else BACKGROUND
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
            f'  role="img" font-family="{FONT}" font-size="{FONT_SIZE}" xml:space="preserve">',
            f"<title>{escape(title)}</title>",
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"',
            f'  fill="{back}" stroke="{BORDER}"/>',
            f'<text x="{width / 2}" y="22" text-anchor="middle" fill="{TITLE_COLOR}">{escape(title)}</text>',
            *parts,
            "</svg>\n",
        )
    )


def main(names: list[str]) -> None:
    """Write the pictures."""
    for name in names or PICTURES:
        picture = PICTURES[name]
        screen = pyte.Screen(*picture.size)
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder, "reader")
            (work / "src").mkdir(parents=True)
            (work / "src" / "lines.py").write_text("")
            record(picture, str(work), screen)
        file = Path(__file__).parents[1] / "pictures" / f"{name}.svg"
        file.parent.mkdir(exist_ok=True)
        file.write_text(draw(screen, picture.command, is_light=picture.is_light), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
