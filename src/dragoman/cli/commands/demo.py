"""`dragoman demo`: a conversation with the everything agent, which runs in a process of its own.

On a terminal it is `chat`; without one it plays a single prompt. The agent works in a folder that is gone afterwards,
and nothing of yours is read or kept: no policy, no grants, no history.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile

from dragoman import ConnectionFailed
from dragoman.cli import exit_codes
from dragoman.cli.chat import chat
from dragoman.cli.commands.run import error_text, report_turn_end
from dragoman.cli.connect import local
from dragoman.cli.connect.run_turn import Interrupts, run_turn
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import TerminalOutput
from dragoman.config.config_file import NamedAgent

AGENT = NamedAgent(name="everything", command=sys.executable, args=("-m", "dragoman", "agent", "everything"))
PROMPT = "/tour"
SAMPLE_FILE = ("notes.txt", "a line to read\na line to change\n")
HINTS = (
    f"It works in a folder of its own, where {SAMPLE_FILE[0]} lies, and needs no model. Try:",
    f"  /tour    /write note.txt hello    /edit {SAMPLE_FILE[0]} read see    /run ls -l    /plan    /help",
)

EPILOG = """\
Ctrl-D leaves. Without a terminal it plays one prompt. The same with an agent of yours: dragoman chat

example:
  dragoman demo"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then talk."""
    parser = Parser("demo", "", "Talk with the agent that ships with Dragoman; it needs no model.", EPILOG)
    _, rest = parser.read(arguments)
    if rest:
        parser.error("it takes no command; `dragoman chat` does")
    with tempfile.TemporaryDirectory(prefix="dragoman-demo-") as folder:
        with open(os.path.join(folder, SAMPLE_FILE[0]), "w", encoding="utf-8") as file:
            file.write(SAMPLE_FILE[1])
        options = local.default_options(os.path.realpath(folder))
        if chat.is_interactive():
            return asyncio.run(chat.Chat(AGENT, options, persistent=False, hints=HINTS).run())
        return asyncio.run(run_demo_prompt(options))


async def run_demo_prompt(options: argparse.Namespace) -> int:
    """One prompt, for those who cannot type."""
    terminal = TerminalOutput(sys.stdout, None)  # it is all there to be looked at
    interrupts = Interrupts()
    try:
        async with local.open_session(AGENT, options, terminal, None, keeps=False) as met:
            terminal.diagnostics.write_line(f"> {PROMPT}", "bold")
            screen = met.create_view(met.session)
            turn = await run_turn(met.session, PROMPT, screen, met.permission_ui, interrupts, terminal.diagnostics)
            return report_turn_end(turn.stop_reason or "", terminal)
    except asyncio.CancelledError:
        return exit_codes.INTERRUPTED
    except ConnectionFailed as error:
        terminal.diagnostics.write_line(error_text(error), "red")
        return exit_codes.DIED
