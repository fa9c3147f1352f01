"""`dragoman chat`: parses the arguments and starts the chat."""

from __future__ import annotations

import asyncio
from importlib import import_module

from dragoman.cli import exit_codes
from dragoman.cli.chat import colon_commands
from dragoman.cli.chat.chat import Chat, is_interactive
from dragoman.cli.connect.options import USAGE, add_session_options, read_session_options
from dragoman.cli.parser import Parser
from dragoman.errors import ConfigFault

EPILOG = f"""\
Enter sends, Alt-Enter starts another line, Tab completes the agent's /commands
and @files, Up and Ctrl-R search the history. Commands of the chat itself begin
with a colon:
{", ".join(f":{name}" for name in colon_commands.COMMANDS)}.

What you type while the agent starts is sent. While it works, what you type
stays on the next input line. Ctrl-C stops the agent; a second Ctrl-C quits.
Ctrl-D quits after the turn; on a host it quits at once, and turns and questions
continue there. One key answers a question of the agent: once, for the session,
for the folder, or always (`dragoman grants`). Your policy decides what is
asked, allowed and denied (docs/policy.md), as for `dragoman run`.

An agent that is not installed, but known to the registry, is offered with its
exact install; one key installs and starts it (`dragoman agents search`).

For editing, history and completion: pip install 'dragoman[tui]'. Without it,
chat reads plain lines.

Sessions are stored (`dragoman sessions`). --session gives the session a name,
and continues it later; an agent that exits can be started again. --no-store
stores nothing. With --host the session is on a host (docs/host.md), and other
users can be in it: the chat shows who is present, who prompts and who decides,
and :who lists the members. The agent uses the files of the host, or with --lend
a folder of this machine.

exit codes:
    0  you quit
    1  an error
    2  wrong usage, or no terminal
    7  the agent did not start, or exited
    8  the sandbox is not available on this machine
   10  the store cannot be used (docs/store.md)
  130  interrupted by Ctrl-C while the agent worked

examples:
  dragoman chat
  dragoman chat claude
  dragoman chat --session roof
  dragoman chat --host office --session roof
  dragoman chat --host office --lend
  dragoman chat --full
  dragoman chat --agent opencode --mode plan
  dragoman chat --agent-mode code --model large -- my-agent --acp
  dragoman chat -- dragoman agent everything"""


def main(arguments: list[str]) -> int:
    """Parse the arguments, then start the chat."""
    parser = Parser("chat", f"[AGENT] {USAGE}", "Chat with an agent in the terminal.", EPILOG)
    add_session_options(parser, has_word=True)
    parser.add_flag("--full", "full screen, with tabs and panels: the same as dragoman tui")
    given, command = parser.read(arguments)
    try:
        options = read_session_options(parser, given, command)
        if not is_interactive():
            parser.error("chat needs a terminal; for one prompt, use: dragoman run 'What is this?'")
        if given.full:  # a layer above this one
            code: int = import_module("dragoman.tui.command").run_window(parser, options)
            return code
        # Not on uvloop: prompt_toolkit needs asyncio's own loop.
        return asyncio.run(Chat(options).run())
    except ConfigFault as fault:
        return parser.fail(str(fault), exit_codes.USAGE)
