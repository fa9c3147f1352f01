"""`dragoman demo`: a conversation with the everything agent, which runs in a process of its own.

On a terminal one talks to it; without one it plays a single prompt. The agent works in a folder that is gone
afterwards.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile

from dragoman import Conversation, RemoteAgent, connect
from dragoman.cli.arguments import Parser
from dragoman.cli.leave import Leave
from dragoman.cli.play import Interrupts, play
from dragoman.cli.questions import Person, somebody
from dragoman.cli.run import ended, explained
from dragoman.cli.screen import Screen
from dragoman.cli.terminal import Line, Sheet, Terminal, single
from dragoman.engine.loop import run as run_loop
from dragoman.errors import ConnectionFailed, ProtocolError

AGENT = (sys.executable, "-m", "dragoman", "agent", "everything")
PROMPT = "/tour"
FIRST_FILE = ("notes.txt", "a line to read\na line to change\n")
# How long the greeting waits for the list of commands; our own agent needs a few milliseconds. Seconds.
TELLING = 5.0

ASKING = "you> "
QUIT = ("", "/quit", "/exit")


def main(arguments: list[str]) -> int:
    """Read the arguments, then talk."""
    parser = Parser("demo", "", "Talk with the agent that ships with Dragoman; an empty line ends it.", "")
    options, rest = parser.read(arguments)
    del options
    if rest:
        parser.error("it takes no command; `dragoman run` does")
    with tempfile.TemporaryDirectory(prefix="dragoman-demo-") as folder:
        with open(os.path.join(folder, FIRST_FILE[0]), "w", encoding="utf-8") as file:
            file.write(FIRST_FILE[1])
        return run_loop(Demo(os.path.realpath(folder)).talk())


class Demo:
    """One demonstration, from the greeting to the end."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._terminal = Terminal(sys.stdout, None)  # it is all there to be looked at
        self._sheet: Sheet = self._terminal.aside
        self._person: Person | None = somebody(self._sheet) if sys.stdin is not None and sys.stdin.isatty() else None
        self._leave = Leave(self._sheet, self._person, cwd=folder)

    async def talk(self) -> int:
        """Greet, then answer one prompt after the other."""
        interrupts = Interrupts()
        try:
            leave = self._leave
            async with connect(AGENT, cwd=self._folder, permission=leave.permission, lend=leave.lending) as agent:
                leave.attend(agent)
                session = await agent.open(self._folder)
                screen = Screen(self._terminal, session, output_of=self._printed, known=leave.shown)
                if self._person is None:
                    self._sheet.line(f"> {PROMPT}", "bold")
                    turn = await play(session, PROMPT, screen, leave, interrupts, self._sheet)
                    return ended(turn.stop_reason or "", self._terminal)
                await self._greet(agent, session)
                await self._converse(session, screen, interrupts, self._person)
        except asyncio.CancelledError:
            self._sheet.fresh()
        except ConnectionFailed as error:
            self._sheet.line(explained(error), "red")
            return 7
        return 0

    async def _greet(self, agent: RemoteAgent, session: Conversation) -> None:
        info = agent.info
        name = f"{single(info.name)} {single(info.version)}" if info else "an agent"
        self._sheet.lines(
            [
                Line(f"This is {name}, speaking {agent.dialect} from a process of its own.", "bold"),
                Line(f"It works in {self._folder}, where {FIRST_FILE[0]} lies.", "dim"),
                Line("Say anything, or one of its commands (the empty line ends it, Ctrl-C stops an answer):", "dim"),
            ]
        )
        told = asyncio.Event()
        session.on_update = lambda _: told.set()
        if not session.commands:  # they are told right after the session is opened
            async with asyncio.timeout(TELLING):
                await told.wait()
        self._sheet.lines(Line(f"  {row}", "cyan") for row in _columns([f"/{c.name}" for c in session.commands]))

    async def _converse(self, session: Conversation, screen: Screen, interrupts: Interrupts, person: Person) -> None:
        playing = False
        unshown: list[object] = []

        def overheard(update: object) -> None:
            """What is said while nobody asked is shown at once, above the prompt."""
            if playing:
                if session.turn is not None and session.turn.is_over:
                    unshown.append(update)  # late: the turn is over, but not all of it is on the screen yet
                return
            self._sheet.unprompt()
            screen.show(update)
            self._sheet.prompt(ASKING, "bold")

        session.on_update = overheard
        while True:
            for update in unshown:
                screen.show(update)
            unshown.clear()
            screen.end()
            self._sheet.gap()
            text = await person.read(ASKING, "bold")
            if text is None or text.strip() in QUIT:
                return
            playing = True
            try:
                turn = await play(session, text, screen, self._leave, interrupts, self._sheet)
            except ProtocolError as error:
                self._sheet.line(explained(error), "red")
            else:
                ended(turn.stop_reason or "", self._terminal)
            finally:
                playing = False

    def _printed(self, id: str) -> str:
        shown = self._leave.lending.terminal(id)
        return shown.output().text if shown is not None else ""


def _columns(words: list[str], width: int = 72) -> list[str]:
    """Words in lines of at most that width."""
    rows = [""]
    for word in words:
        if rows[-1] and len(rows[-1]) + 1 + len(word) > width:
            rows.append("")
        rows[-1] = f"{rows[-1]} {word}".lstrip()
    return rows
