"""The output of a terminal that an agent runs: bytes in, text for a client without such terminals out. Pure.

Keeps the end of the output. Sequences that move the cursor or set colors are removed; other control characters are
made visible.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from typing import Any, Final, NamedTuple

from dragoman.schema.terminal import TerminalExitStatus

# The most output that is kept per terminal, as in the workspace; older output is dropped.
OUTPUT_LIMIT: Final = 1024 * 1024

# Clears the screen and what has scrolled off it, for clients that interpret control sequences.
CLEAR_SCREEN: Final = "\x1b[2J\x1b[3J\x1b[H"

# Control sequences, also one that is not complete yet at the end: with parameters, with a text, with one letter.
_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\Z)"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|\Z)"
    r"|\x1b[ -/]*(?:[0-~]|\Z)"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))  # of a character that began before
_BACKTICKS: Final = re.compile("`+")


class PlainText(NamedTuple):
    """Text without control characters, and what was lost."""

    text: str
    had_sequences: bool
    had_other_bytes: bool


class TerminalText:
    """The end of what a terminal has written."""

    def __init__(self, limit: int = OUTPUT_LIMIT) -> None:
        self._limit = limit
        self._data = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.dropped = 0  # bytes that are no longer kept

    def append(self, data: bytes) -> str:
        """Add output; return it as text, with the start of a character that came before."""
        self._data += data
        excess = len(self._data) - self._limit
        if excess > 0:
            del self._data[:excess]
            self.dropped += excess
        return self._decoder.decode(data)

    def replace(self, data: bytes) -> str:
        """Replace all output; return what must be written to a screen that shows the output so far."""
        if not self.dropped and data.startswith(self._data):
            return self.append(data[len(self._data) :])
        was_empty = not self._data
        self._data.clear()
        self._decoder.reset()
        self.dropped = 0
        return ("" if was_empty else CLEAR_SCREEN) + self.append(data)

    def all_text(self) -> str:
        """Return everything that is kept, with its control sequences."""
        return self._decode(is_over=False)

    def plain_text(self, is_over: bool) -> PlainText:
        """Return the text as a terminal would have left it, without control characters."""
        text = self._decode(is_over)
        had_other_bytes = "\ufffd" in text
        text, count = _SEQUENCE.subn("", text) if "\x1b" in text or "\x9b" in text else (text, 0)
        if "\r" in text:
            text = "\n".join(map(_after_returns, text.split("\n")))
        if "\b" in text:
            text = _without_backspaces(text)
        return PlainText(_CONTROL.sub(_visible, text), count > 0, had_other_bytes)

    def _decode(self, is_over: bool) -> str:
        data = bytes(self._data)
        if self.dropped:  # the first character may be cut
            first = data[:3]
            data = data[len(first) - len(first.lstrip(_CONTINUATIONS)) :]
        return codecs.getincrementaldecoder("utf-8")("replace").decode(data, is_over)


def decode_output(data: str) -> bytes | None:
    """Return bytes from base64; None if they cannot be read."""
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return None


def transcript(plain: PlainText, dropped: int, exit_status: TerminalExitStatus | None) -> str:
    """Return the output in a Markdown fence, with a line about how the command ended."""
    body = plain.text.removesuffix("\n")
    lines = [f"[{dropped} bytes before this are not kept]"] if dropped else []
    if body:
        longest = max((len(run) for run in _BACKTICKS.findall(body)), default=0)
        fence = "`" * max(3, longest + 1)
        lines += [fence, body, fence]
    else:
        lines.append("(no output yet)" if exit_status is None else "(no output)")
    if exit_status is not None:
        lines.append(exit_line(exit_status))
    return "\n".join(lines)


def exit_line(status: TerminalExitStatus) -> str:
    """Return how a command ended, in words."""
    if isinstance(status.signal, str):
        return f"[ended by {status.signal}]"
    return f"[exit code {status.exit_code}]" if isinstance(status.exit_code, int) else "[ended]"


def has_failed(status: TerminalExitStatus) -> bool:
    """Return whether a command ended otherwise than by success; one of which nothing is known has not."""
    return isinstance(status.signal, str) or bool(isinstance(status.exit_code, int) and status.exit_code)


def exit_members(status: TerminalExitStatus) -> dict[str, Any]:
    """Return exit code and signal as the convention for tool calls names them."""
    code, signal = status.exit_code, status.signal
    return {
        "exit_code": code if isinstance(code, int) else None,
        "signal": signal if isinstance(signal, str) else None,
    }


def _after_returns(line: str) -> str:
    """Return what a line shows after its carriage returns: the last text, which was written over the others."""
    return next((part for part in reversed(line.split("\r")) if part), "")


def _without_backspaces(text: str) -> str:
    out: list[str] = []
    for letter in text:
        if letter != "\b":
            out.append(letter)
        elif out and out[-1] != "\n":
            out.pop()
    return "".join(out)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code == 7:  # a bell has nothing to show
        return ""
    return chr(0x2400 + code) if code < 32 else "\u2421" if code == 127 else f"\\x{code:02x}"
