"""`dragoman tui`: sessions with agents, full screen. Parses the arguments and starts the window."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from dragoman.cli import exit_codes
from dragoman.cli.connect.options import USAGE, SessionOptions, add_session_options, read_session_options
from dragoman.cli.parser import Parser
from dragoman.errors import ConfigFault
from dragoman.tui.themes import THEMES, default_theme

INSTALL_ADVICE = "the full screen needs prompt_toolkit: pip install 'dragoman[tui]'; or use: dragoman chat"

EPILOG = """\
Sessions at the left, several agents in tabs, the transcript in the middle, plan,
changed files and members at the right. ? shows the keys, Ctrl-K all actions,
Ctrl-O opens a session of this machine or of a host, Ctrl-N starts another agent.

A question of the agent is a bar above the prompt, with the change or the command
it is about. One key answers it, but not before it was on the screen for a moment,
and not while you write. Prompts that you send while the agent works wait.

Sessions are stored, as with `dragoman chat`, which is the same line by line. With
--host the session is on a host, and other users can be in it. Quitting ends the
agents of this machine; sessions on a host continue.

DRAGOMAN_IMAGES=kitty, iterm, sixel or none says how to show pictures; NO_COLOR
switches colors off.

exit codes:
    0  you quit
    2  wrong usage, no terminal, or prompt_toolkit is missing
  130  ended by SIGTERM

examples:
  dragoman tui
  dragoman tui claude
  dragoman tui --session roof
  dragoman tui --host office --session roof
  dragoman tui --theme light -- my-agent --acp
  dragoman tui -- dragoman agent everything"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then show the window."""
    parser = Parser("tui", f"[AGENT] {USAGE}", "Work with agents in the terminal, full screen.", EPILOG)
    add_session_options(parser, has_word=True)
    parser.add_value("--theme", "NAME", f"colors: {', '.join(THEMES)} (by the terminal)", choices=tuple(THEMES))
    given, command = parser.read(arguments)
    try:
        options = read_session_options(parser, given, command)
        return run_window(parser, options, theme=given.theme)
    except ConfigFault as fault:
        return parser.fail(str(fault), exit_codes.USAGE)


def run_window(parser: Parser, options: SessionOptions, *, theme: str | None = None, hints: Sequence[str] = ()) -> int:
    """Show the window on the terminal; advise where there is none, or no prompt_toolkit."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        parser.error("the full screen needs a terminal; for one prompt, use: dragoman run 'What is this?'")
    try:
        from dragoman.tui.app import TuiApp
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("prompt_toolkit"):
            raise
        return parser.fail(INSTALL_ADVICE, exit_codes.USAGE)

    from dragoman.tui.images.protocol import check_version, find_protocol
    from dragoman.tui.images.version import ask_version

    images = check_version(find_protocol(), ask_version)

    async def run() -> int:
        app = TuiApp(options, theme=theme or default_theme(), hints=hints)
        app.images = images
        return await app.run()

    return asyncio.run(run())  # not on uvloop: prompt_toolkit needs asyncio's own loop
