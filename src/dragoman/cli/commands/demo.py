"""`dragoman demo`: chat with the everything agent, which runs as a process of its own.

Without a terminal it runs a single prompt. The agent works in a temporary folder; nothing of the user is read or
stored: no policy, no grants, no history.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile

from dragoman import ConnectionFailed
from dragoman.cli import exit_codes
from dragoman.cli.chat import chat
from dragoman.cli.connect.local import open_session
from dragoman.cli.connect.options import SessionOptions
from dragoman.cli.connect.prompt import Interrupts, run_turn
from dragoman.cli.messages import error_text, report_turn_end
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import NO_BREAK, TerminalOutput
from dragoman.config.config_file import own_agent

# -P: the working directory does not decide what is imported.
AGENT = own_agent("everything", "agent")
PROMPT = "/tour"
SAMPLE_FILE = ("notes.txt", "a line to read\na line to change\n")
EXAMPLES = ("/tour", "/write note.txt hello", f"/edit {SAMPLE_FILE[0]} read see", "/run ls -l", "/plan", "/help")
HINTS = (
    f"This agent needs no model. It works in a temporary folder that has a file {SAMPLE_FILE[0]}. Try:",
    "  " + "    ".join(each.replace(" ", NO_BREAK) for each in EXAMPLES),
)

EPILOG = """\
Ctrl-D quits. Without a terminal, the demo runs one prompt. To chat with an
agent of your own: dragoman chat

example:
  dragoman demo"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then start the chat."""
    parser = Parser("demo", "", "Chat with the built-in demo agent. It needs no model and no network.", EPILOG)
    parser.read_options(arguments, "; use `dragoman chat`")
    for number in (signal.SIGHUP, signal.SIGTERM):  # their default would leave the folder behind
        signal.signal(number, _exit_on_signal)
    with tempfile.TemporaryDirectory(prefix="dragoman-demo-") as folder:
        with open(os.path.join(folder, SAMPLE_FILE[0]), "w", encoding="utf-8") as file:
            file.write(SAMPLE_FILE[1])
        options = SessionOptions(agent=AGENT, cwd=os.path.realpath(folder), uses_user_files=False)
        if chat.is_interactive():
            return asyncio.run(chat.Chat(options, hints=HINTS).run())
        return asyncio.run(run_demo_prompt(options))


def _exit_on_signal(number: int, _: object) -> None:
    sys.exit(128 + number)


async def run_demo_prompt(options: SessionOptions) -> int:
    """Run one prompt, where nobody can type."""
    terminal = TerminalOutput(sys.stdout, None)  # no separate stream: the output is only looked at
    interrupts = Interrupts()
    try:
        async with open_session(options, terminal, None) as opened:
            terminal.diagnostics.write_line(f"> {PROMPT}", "bold")
            view = opened.create_view(opened.session)
            turn = await run_turn(opened, PROMPT, view, interrupts)
            return report_turn_end(turn.stop_reason or "", terminal)
    except asyncio.CancelledError:
        return interrupts.exit_code
    except ConnectionFailed as error:
        terminal.diagnostics.write_line(error_text(error), "red")
        return exit_codes.DIED
