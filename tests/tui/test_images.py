"""Pictures in the terminal: the escape sequences, read by parsers written from the documents of the protocols."""

from __future__ import annotations

import base64
import itertools
import random
import re
import struct
import time
import unicodedata
import zlib
from pathlib import Path

import pytest

from dragoman.schema import update as updates
from dragoman.schema.content import ImageContent
from dragoman.tui.flow.block import RenderOptions
from dragoman.tui.flow.flow import Flow
from dragoman.tui.images.picture import KITTY_CHUNK, PLACEHOLDER, Picture
from dragoman.tui.images.png import Pixels, decode_png
from dragoman.tui.images.protocol import check_version, find_protocol
from tests.cli.process import OnTerminal
from tests.tui.window import ENTER, Window, open_window

RED, GREEN, BLUE, YELLOW = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)


def png(pixels: Pixels, chunk: int = 1 << 20) -> str:
    """A PNG, with so many bytes in a chunk."""
    raw = b"".join(b"\0" + b"".join(bytes(pixel) for pixel in row) for row in pixels)
    packed = zlib.compress(raw, 0)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 2, 0, 0, 0)),
        *((b"IDAT", packed[at : at + chunk]) for at in range(0, len(packed), chunk)),
        (b"IEND", b""),
    ]
    chunks = b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode()


def quarters(width: int, height: int) -> Pixels:
    """A picture of four colors."""
    rows = ([RED, GREEN], [BLUE, YELLOW])
    return [[rows[2 * y // height][2 * x // width] for x in range(width)] for y in range(height)]


def read_kitty(text: str) -> tuple[dict[str, str], bytes]:
    """Read a transfer of the kitty graphics protocol: the keys of its first part, and the bytes of all."""
    parts = re.findall(r"\x1b_G([^;]*);([A-Za-z0-9+/=]*)\x1b\\", text)
    assert "".join(f"\x1b_G{keys};{data}\x1b\\" for keys, data in parts) == text
    controls = [dict(pair.split("=", 1) for pair in keys.split(",") if pair) for keys, _ in parts]
    assert [control["m"] for control in controls] == ["1"] * (len(parts) - 1) + ["0"]
    assert all(set(control) == {"m"} for control in controls[1:])
    assert all(len(data) <= KITTY_CHUNK and len(data) % 4 == 0 for _, data in parts)
    return controls[0], base64.b64decode("".join(data for _, data in parts))


def read_sixel(text: str) -> Pixels:
    """Read a picture in sixels (DEC STD 070): registers, repeats, the ends of lines and of bands."""
    found = re.fullmatch(r'\x1bPq"1;1;(\d+);(\d+)([^\x1b]*)\x1b\\', text)
    assert found is not None
    width, height = int(found[1]), int(found[2])
    pixels = [[(0, 0, 0)] * width for _ in range(height)]
    colors: dict[str, tuple[int, ...]] = {}
    color, x, top = "", 0, 0
    token = re.compile(r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)([?-~])|([?-~])|([$-])")
    at = 0
    while at < len(found[3]):
        part = token.match(found[3], at)
        assert part is not None, found[3][at : at + 20]
        at = part.end()
        if part[1]:
            colors[part[1]] = tuple(round(int(part[n]) * 255 / 100) for n in (2, 3, 4))
        elif part[5]:
            color = part[5]
        elif part[9]:
            x, top = 0, top + (6 if part[9] == "-" else 0)
        else:
            count, bits = int(part[6] or 1), ord(part[7] or part[8]) - 63
            for column, y in itertools.product(range(x, x + count), range(6)):
                if bits >> y & 1:
                    pixels[top + y][column] = colors[color]  # type: ignore[assignment]
            x += count
    return pixels


@pytest.mark.item("FA-25")
def test_a_picture_is_shown_where_the_terminal_can_and_described_elsewhere() -> None:
    flow = Flow("/work")
    data = png(quarters(200, 100))
    flow.apply(updates.AgentMessageChunk(content=ImageContent(data=data, mime_type="image/png")))
    (described,) = flow.blocks[0].rows(RenderOptions(80))
    assert described.text.startswith("[image, image/png, ")
    assert described.text.endswith(", 200 x 100]")
    drawn = flow.blocks[0].rows(RenderOptions(80, image_cells=(60, 20)))
    assert len(drawn) == 1 + 5
    assert all(row.text.count(PLACEHOLDER) == 20 for row in drawn[1:])


@pytest.mark.item("FA-25")
def test_a_terminal_gets_the_bytes_of_a_picture_and_cells_with_its_number() -> None:
    data = png(quarters(200, 100))
    picture = Picture(data, "image/png")
    keys, content = read_kitty(picture.kitty_transfer(60, 20))
    assert content == base64.b64decode(data)
    assert len(data) > 2 * KITTY_CHUNK
    assert (keys["a"], keys["U"], keys["f"], keys["t"], keys["c"], keys["r"]) == ("T", "1", "100", "d", "20", "5")
    marks = []
    for row in picture.placeholder_rows(60, 20):
        for text, style in row.pieces[1:]:
            assert int(style.removeprefix("fg:#"), 16) == int(keys["i"])
            assert text[0] == PLACEHOLDER
            marks.append((text[1], text[2]))
    lines, columns = (list(dict.fromkeys(mark[at] for mark in marks)) for at in (0, 1))
    assert marks == list(itertools.product(lines, columns))
    assert (len(lines), len(columns)) == (5, 20)
    # The numbers are marks above a letter that belong to no other letter, in the order of Unicode.
    assert columns == sorted(columns)
    assert all(unicodedata.combining(mark) == 230 and not unicodedata.decomposition(mark) for mark in columns)
    assert columns[:5] == ["\u0305", "\u030d", "\u030e", "\u0310", "\u0312"]
    alone, content = read_kitty(picture.kitty_alone(60, 20))
    assert "U" not in alone
    assert content == base64.b64decode(data)


@pytest.mark.item("FA-25")
@pytest.mark.parametrize("size", [(20, 20), (7, 13), (90, 5), (1, 1)])
def test_sixels_are_the_pixels_of_the_picture(size: tuple[int, int]) -> None:
    pixels = quarters(*size)
    assert decode_png(png(pixels)) == pixels
    assert read_sixel(Picture(png(pixels), "image/png").sixel_sequence(60, 20)) == pixels


@pytest.mark.item("FA-25")
def test_a_picture_of_many_colors_in_many_chunks_does_not_stop_the_window() -> None:
    noise = random.Random(1)
    pixels = [
        [(noise.randrange(256), noise.randrange(256), noise.randrange(256)) for _ in range(300)] for _ in range(400)
    ]
    picture = Picture(png(pixels, chunk=1), "image/png")
    assert picture.is_showable
    started = time.process_time()
    assert picture.sixel_sequence(200, 60)
    assert time.process_time() - started < 3


def test_a_picture_for_iterm_has_its_size_in_cells() -> None:
    sequence = Picture(png(quarters(20, 20)), "image/png").iterm_sequence(60, 20)
    head, _, data = sequence.removesuffix("\x07").partition(":")
    assert head == "\x1b]1337;File=inline=1;width=2;height=1;preserveAspectRatio=1"
    assert base64.b64decode(data).startswith(b"\x89PNG")


def test_terminals_are_known_by_their_variables_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_protocol({"TERM": "xterm-kitty"}).is_inline
    assert find_protocol({"TERM": "xterm-kitty", "TMUX": "1"}).name == ""
    assert find_protocol({"TERM_PROGRAM": "iTerm.app"}) == ("iterm", False)
    assert find_protocol({"TERM": "xterm", "DRAGOMAN_IMAGES": "sixel"}) == ("sixel", False)
    monkeypatch.delenv("DRAGOMAN_IMAGES", raising=False)
    kitty = find_protocol({"TERM": "xterm-kitty"})
    assert check_version(kitty, lambda: "kitty(0.26.5)") == ("kitty", False)
    assert check_version(kitty, lambda: "kitty(0.41.1)").is_inline
    assert check_version(kitty, lambda: "ghostty 1.1").is_inline
    assert check_version(find_protocol({"TERM": "xterm"}), lambda: pytest.fail("asked")).name == ""


def test_broken_pictures_are_described() -> None:
    good = png(quarters(20, 20))
    for data in ("", "!!!!", base64.b64encode(b"\x89PNG\r\n\x1a\nIHDR").decode(), good[:40]):
        picture = Picture(data, "image/png")
        assert picture.sixel_sequence(10, 10) == ""
        assert picture.placeholder_rows(10, 10) == [] or picture.size == (20, 20)


@pytest.mark.parametrize(
    "evil", ["\x1b\\\x1b]52;c;b3duZWQ=\x07", "\x07\x1b]0;owned\x07", "\x9c\x9d52;c;b3duZWQ=\x9c", "\n\rowned"]
)
def test_a_picture_that_is_not_base64_alone_is_not_given_to_the_terminal(evil: str) -> None:
    good = png(quarters(20, 20))
    for data in (good + evil, good[:400] + evil + good[400:], evil + good):
        picture = Picture(data, "image/png")
        assert not picture.is_showable
        for sequence in (picture.kitty_transfer(10, 10), picture.kitty_alone(10, 10), picture.iterm_sequence(10, 10)):
            assert evil not in sequence
        assert picture.placeholder_rows(10, 10) == []


@pytest.mark.item("FA-25")
async def test_the_window_gives_a_picture_to_the_terminal_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_IMAGES", "kitty")
    async with open_window(here) as window:
        window.type("/image" + ENTER)
        await window.expect_that(lambda: transfers(window) and PLACEHOLDER in window.sink.raw, "a picture")
        window.type("/echo after it" + ENTER)
        await window.expect_that(lambda: window.text.count("after it") >= 2, "the next answer")
        (sequence,) = set(transfers(window))
        assert len(transfers(window)) == 1
        assert read_kitty(sequence)[1].startswith(b"\x89PNG")


def transfers(window: Window) -> list[str]:
    """The pictures that the window has given to the terminal."""
    return re.findall(r"(?:\x1b_G[^\x1b]*\x1b\\)+", window.sink.raw)


@pytest.mark.item("FA-25")
def test_an_old_kitty_is_asked_for_its_version_and_shows_pictures_alone(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-kitty")
    with OnTerminal("tui", "--", "dragoman-everything", cwd=here) as terminal:
        terminal.see("\x1b[>q")
        terminal.type("\x1bP>|kitty(0.26.5)\x1b\\\x1b[?62;c")
        terminal.see("\x1b[?1049h")  # the window begins
        assert "0.26.5" not in terminal.text
