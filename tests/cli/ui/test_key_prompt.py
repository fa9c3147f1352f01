"""Questions that are answered with a key or a word."""

from __future__ import annotations

import os
import pty
import select
from collections.abc import Iterator

import pytest

from dragoman.cli.ui.key_prompt import EOF_KEY, KeyChoice, Prompter, raw_key_mode
from dragoman.cli.ui.terminal import OutputStream, StyledLine

COLORS = [KeyChoice("1", "Red", "red"), KeyChoice("2", "Green", "green"), KeyChoice("3", "Reddish", "reddish")]
PERMISSION = [
    KeyChoice("y", "yes, this once", "y", "No"),  # the agent's own name for it
    KeyChoice("s", "yes, for this session", "s"),
    KeyChoice("n", "no", "n", "Not now"),
]

FORM = [KeyChoice("y", "answer", "answer"), KeyChoice("n", "decline", "decline")]


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal: our end and the user's end."""
    master, slave = pty.openpty()
    yield slave, master
    os.close(master)
    os.close(slave)


async def ask(terminal: tuple[int, int], choices: list[KeyChoice], *keys: str) -> tuple[str | None, str]:
    """Type these keys, each after the one before was read; return the answer and the screen."""
    slave, master = terminal
    waiting = list(keys)

    class TypingPrompter(Prompter):
        async def _read_input(self, prompt: str, style: str) -> bytes:
            os.write(master, waiting.pop(0).encode())
            return await super()._read_input(prompt, style)

        def _flush_input(self) -> None:
            pass

    with open(slave, "w", closefd=False, encoding="utf-8") as stream:  # noqa: ASYNC230  (a terminal)
        answer = await TypingPrompter(OutputStream(stream, {}), slave).choose([StyledLine("Which?")], choices)
    assert not waiting
    return answer, os.read(master, 65536).decode()


@pytest.mark.parametrize(
    ("choices", "keys", "answer"),
    [
        (COLORS, ["2"], "green"),
        (COLORS, ["g", "r", "e", "e", "n"], "green"),
        (COLORS, ["green"], "green"),
        (COLORS, ["r", "e", "d", "\r"], "red"),
        (COLORS, ["r", "e", "d", "d", "i", "s", "h"], "reddish"),
        (COLORS, ["g", "\x7f", "2"], "green"),
        (PERMISSION, ["y"], "y"),
        (PERMISSION, ["yes"], "y"),
        (PERMISSION, ["no"], "n"),
        (PERMISSION, ["NO"], "n"),
        (PERMISSION, ["yes, for this session"], "s"),
        (FORM, ["yes"], "answer"),
        (FORM, ["n"], "decline"),
        (FORM, ["no\r"], "decline"),
        (FORM, ["decline"], "decline"),
    ],
)
async def test_keys_and_words_answer(
    terminal: tuple[int, int], choices: list[KeyChoice], keys: list[str], answer: str
) -> None:
    assert (await ask(terminal, choices, *keys))[0] == answer


@pytest.mark.parametrize("wrong", ["2", "q", "yesterday", "\r", "\x1b[A", "nay"])
async def test_a_wrong_key_is_answered_with_the_right_ones(terminal: tuple[int, int], wrong: str) -> None:
    answer, screen = await ask(terminal, PERMISSION, wrong, "n")
    assert answer == "n"
    assert "type y, s or n" in screen


async def test_ctrl_d_before_the_line_is_read_ends_the_input(terminal: tuple[int, int]) -> None:
    slave, master = terminal
    with open(slave, "w", closefd=False, encoding="utf-8") as stream:  # noqa: ASYNC230  (a terminal)
        with raw_key_mode(slave):
            os.write(master, EOF_KEY)
            assert select.select([slave], [], [], 10)[0]
        assert await Prompter(OutputStream(stream, {}), slave).read("› ") is None
