"""The page and the full-screen terminal in one session: both are real programs, and they show the same story."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.process import OnScreen
from tests.web.browser import MakePerson, WebHost, needs_browser, rpc_session

pytestmark = needs_browser


class Terminal(OnScreen):
    """`dragoman tui` in a session of a host."""

    def __init__(self, host: WebHost, session: str, folder: Path) -> None:
        arguments = ("tui", "--host", host.url, "--session", session, "--theme", "dark")
        super().__init__(*arguments, cwd=folder, columns=160, lines=50)
        self.await_text("● live")

    def answer_question(self, key: str) -> None:
        """Answer the question when it takes keys."""
        self._read_until(self._takes_keys, "a question that takes keys")
        self.type(key)

    def _takes_keys(self) -> bool:
        """Tell whether the first answer is bold, as in a question that takes keys."""
        for row, line in enumerate(self._screen.display):
            if (at := line.find(" y  once")) >= 0:
                return bool(self._screen.buffer[row][at + len(" y  ")].bold)
        return False

    def await_order(self, wanted: list[str]) -> None:
        """Wait until the transcript has these texts in this order."""
        self._read_until(lambda: self._has_in_order(wanted), f"{wanted} in this order")

    def _has_in_order(self, wanted: list[str]) -> bool:
        at = 0
        for text in wanted:
            at = self.text.find(text, at)
            if at < 0:
                return False
            at += len(text)
        return True


@pytest.mark.item("FA-28")
def test_the_terminal_and_the_page_show_the_same_session_in_step(
    host: WebHost, person: MakePerson, tokens: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("DRAGOMAN_TOKEN", host.token("cleo", "editor"))
    (host.project / "step.py").write_text("def step(text):\n    return text.split()\n")
    ann = person(tokens["ann"])
    session = rpc_session(ann)
    ann.set_role(session, "cleo", "editor")
    ann.say("/echo said on the page")
    ann.page.wait_for_selector(".answer:has-text('said on the page')")
    with Terminal(host, session, tmp_path) as terminal:
        terminal.await_order(["/echo said on the page", "said on the page"])
        ann.page.wait_for_selector(".side .who:has-text('cleo')")
        terminal.type("/echo said in the terminal\r")
        ann.page.wait_for_selector(".answer:has-text('said in the terminal')")
        # Each answers a question that the other sees too.
        ann.say("/edit step.py split() splitlines()")
        ann.page.wait_for_selector(".asks")
        terminal.answer_question("y")
        ann.page.wait_for_selector(".asks", state="detached")
        ann.page.wait_for_selector(".tool:has-text('allowed by cleo')")
        ann.see("Changed step.py.")
        terminal.await_text("Changed step.py.")
        terminal.type("/ask\r")
        terminal.await_text("May I?")
        ann.answer_question("n")
        ann.page.wait_for_selector(".asks", state="detached")
        terminal.await_text("ann")
        # A stream and a prompt that waits for its end.
        terminal.type("/stream 30\r")
        ann.page.wait_for_selector(".answer:has-text('chunk 00029')")
        ann.say("/echo the last word")
        ann.page.wait_for_selector(".answer:has-text('the last word')")
        prompts = [line.partition(" ")[2] for line in ann.story if line.startswith(("ann ", "cleo "))]
        assert prompts == [
            "/echo said on the page", "/echo said in the terminal", "/edit step.py split() splitlines()", "/ask",
            "/stream 30", "/echo the last word",
        ]  # fmt: skip
        terminal.await_order(["/stream 30", "chunk 00000", "chunk 00029", "/echo the last word", "the last word"])
        terminal.type("\x1b[5~" * 3)  # page up, to what was before
        terminal.await_order([*prompts[:3], "Changed step.py."])
        terminal.type("\x03\x04")
        assert terminal.end() == 0
        ann.page.wait_for_selector(".side .who:has-text('cleo')", state="detached")
