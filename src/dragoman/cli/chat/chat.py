"""`dragoman chat`: a conversation with an agent, line by line.

What the agent says goes to the screen as it comes; what the person writes comes from the editing line; questions stand
above both. One turn at a time: while it runs nothing is sent, and what is typed waits on the next line.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import shlex
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial

from dragoman import ConnectionFailed, Conversation, ProtocolError
from dragoman.cli import exit_codes
from dragoman.cli.chat import colon_commands, completer, line_editor
from dragoman.cli.chat.background import Interjections
from dragoman.cli.chat.completer import Candidate
from dragoman.cli.chat.detach import Parting
from dragoman.cli.chat.history import History
from dragoman.cli.chat.line_editor import PROMPT, Interruptible
from dragoman.cli.chat.status_line import status
from dragoman.cli.commands.run import code_of, died, ended, explained
from dragoman.cli.connect import attachments
from dragoman.cli.connect import local as meeting
from dragoman.cli.connect.local import Met
from dragoman.cli.connect.presence import INTERRUPTED
from dragoman.cli.connect.run_turn import Interrupts, play
from dragoman.cli.parser import Parser
from dragoman.cli.ui.key_prompt import END, Choice, key_by_key
from dragoman.cli.ui.terminal import Line, Terminal, clip, single, visible
from dragoman.cli.ui.transcript_view import Telling, last_turn
from dragoman.config.config_file import NamedAgent
from dragoman.config.paths import places
from dragoman.errors import ConfigFault, Kind

# A turn that takes longer than this says that it is still there, and how long it has been, as often. Seconds.
PULSE = 1.0

EPILOG = f"""\
Enter sends, Alt-Enter begins another line, Tab completes the agent's /commands and @files, Up and Ctrl-R look into the
history. Commands of the conversation itself begin with a colon:
{", ".join(f":{name}" for name in colon_commands.COMMANDS)}.

While the agent works, what you type waits for the next line; Ctrl-C stops the agent, a second one ends all, and Ctrl-D
leaves when it is done; a host you leave at once, and turns and questions go on there. The agent's questions are
answered by one key; the answer can be for once, the session, the folder, or always (`dragoman grants`). What is asked,
allowed and denied is your policy's (docs/policy.md), as for `dragoman run`.

Editing, history and completion come with: pip install 'dragoman[tui]'. Without it, chat reads plain lines.

What is said is kept (`dragoman sessions`): --session gives the session a name and goes on with it another time, and an
agent that dies can be started again. --no-store keeps nothing. With --host the session is in a host (docs/host.md), and
others may be in it: who is here, asks, waits and decides is shown, and :who lists them. It works with the host's files,
unless --lend gives it a folder here.

exit codes:
    0  you left                            8  the sandbox cannot be had here
    1  an error                           10  the session cannot be kept (docs/store.md)
    2  wrong usage, or no terminal       130  ended by Ctrl-C while the agent worked
    7  the agent did not start, or died

examples:
  dragoman chat
  dragoman chat --session roof
  dragoman chat --host office --session roof
  dragoman chat --host office --lend
  dragoman chat --agent opencode --mode plan
  dragoman chat --agent-mode code --model large -- my-agent --acp
  dragoman chat -- dragoman agent everything"""


def main(arguments: list[str]) -> int:
    """Read the arguments, then talk."""
    parser = Parser("chat", meeting.USAGE, "Talk with an agent.", EPILOG)
    meeting.add(parser)
    options, command = parser.read(arguments)
    try:
        agent = meeting.agreed(parser, options, command)
        if not is_interactive():
            parser.error("a conversation needs a terminal; to ask one thing, use: dragoman run 'What is this?'")
        # Not on uvloop: the editing line is at home on asyncio's own loop.
        return asyncio.run(Chat(agent, options).talk())
    except ConfigFault as fault:
        print(f"{parser.prog}: {visible(str(fault))}", file=sys.stderr)
        return exit_codes.USAGE


def is_interactive() -> bool:
    """Whether there is somebody who reads and types."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


class Chat:
    """One conversation, from the greeting to the end."""

    def __init__(
        self, agent: NamedAgent, options: argparse.Namespace, *, keeps: bool = True, hints: Sequence[str] = ()
    ) -> None:
        self.is_over = False
        self._agent = agent
        self._options = options
        self._keeps = keeps
        self._hints = hints
        self._terminal = Terminal(sys.stdout, None)
        self._sheet = self._terminal.aside
        self._fd = sys.stdin.fileno()
        self._person = Interruptible(self._sheet, self._fd)
        self._met: Met
        self.session: Conversation
        self._between = Interjections(self._sheet, self._person)
        self._log: str | None = None  # where the session is kept
        self._parting: Parting
        self._is_told = False  # whether the person knows what was said before

    async def talk(self) -> int:
        """Greet, then one turn after the other; an agent that dies is started again if the person wants that."""
        interrupts = Interrupts()
        self._parting = Parting(asyncio.current_task())
        while True:
            try:
                await self._meet(interrupts)
                self._say_way_back()
                return exit_codes.OK
            except asyncio.CancelledError:
                self._sheet.fresh()
                if self._parting.is_begun:
                    self._say_way_back()
                    return exit_codes.OK
                return exit_codes.INTERRUPTED if self._between.is_playing else exit_codes.OK
            except (ProtocolError, ConnectionFailed) as error:
                self._sheet.line(f"dragoman chat: {explained(error)}", "red")
                if not isinstance(error, ConnectionFailed) or not await self._again():
                    return code_of(error)

    async def _meet(self, interrupts: Interrupts) -> None:
        met = meeting.meet(
            self._agent,
            self._options,
            self._terminal,
            self._person,
            keeps=self._keeps,
            tell=self._between.mention,
            discreet=True,
        )
        async with met as self._met:
            self.leave = self._between.leave = self._met.leave
            self._enter(self._met.session)
            self._person.on_end = self._part if self._met.company is not None else None
            history = History(places().history if self._keeps else os.path.join(self._options.cwd, ".history"))
            self._reader, advice = line_editor.best(self._person, self._sheet, history, self._completed, self._status)
            self._person.reader = self._between.reader = self._reader
            if self._met.company is not None:
                self._met.company.tell_decided = self._between.mention_after
                if isinstance(self._reader, line_editor.Editor):
                    self._reader.on_change = self._typing
                    self._met.company.changed = self._reader.refresh
            self._greet(advice)
            await self._recall()
            self.leave.is_welcome.set()
            # Between two lines too: a terminal that turns Enter into Ctrl-J would have the editor begin a second line.
            with key_by_key(self._fd) if self._reader.takes_keys else nullcontext():
                await self._converse(interrupts)

    async def _again(self) -> bool:
        """The agent is gone: whether it shall be started again, to go on with what is kept."""
        self._between.is_playing = False
        log, self._log = self._log, None
        if log is None:
            return False
        question = [Line("The agent is gone. What was said is kept.")]
        choices = [Choice("y", "start it again and go on", "y"), Choice("n", "leave", "n")]
        if await self._person.choose(question, choices) != "y":
            return False
        self._options.session = log
        return True

    async def _recall(self) -> None:
        """What was said last in a session that goes on."""
        record = self._met.record
        if record is not None and record.before is not None and not self._is_told:
            if self._met.company is None:
                self._between.forget()  # an agent that loads a session tells all of it again
            Telling(self._sheet).said(await last_turn(record.store, record.before))
        self._is_told = True

    # --- for the commands of the conversation -----------------------------------------------------------------

    def say(self, text: str, style: str = "dim") -> None:
        """One line of our own."""
        self._sheet.line(single(text), style)

    def others(self) -> str:
        """Who is here, in a session of a host; nothing elsewhere."""
        return self._met.company.present() if self._met.company is not None else ""

    def lines(self, lines: Iterable[Line]) -> None:
        """Several."""
        self._sheet.lines(lines)

    @property
    def lends(self) -> bool:
        """Whether a folder here is lent to an agent in a host."""
        return self._options.lend is not None

    async def begin_anew(self) -> None:
        """Go on in a new session; in a host, one is in the other no longer."""
        before = self.session
        self._enter(await meeting.opened(self._met.agent, self._options, self._met.leave))
        if self._met.company is not None:
            self._met.company.enter(self.session.id)
            await self._met.agent.request("session/detach", {"sessionId": before.id})

    # --- talking ----------------------------------------------------------------------------------------------

    def _enter(self, session: Conversation) -> None:
        self.session = session
        self._log = getattr(session, "log", None)
        self._screen = self._met.shown(session)
        self._between.enter(session, self._screen)

    def _greet(self, advice: str) -> None:
        info = self._met.agent.info
        name = f"{single(info.title or info.name)} {single(info.version)}" if info else single(self._agent.name)
        home = os.path.expanduser("~")
        cwd = self._options.cwd
        shown = f"~{cwd[len(home) :]}" if cwd == home or cwd.startswith(f"{home}/") else cwd
        self._sheet.lines(
            [
                Line(f"{name}, speaking {self._met.agent.dialect}, in {single(shown)}{self._where()}", "bold"),
                *(Line(hint, "dim") for hint in self._hints),
                Line(f"{self._reader.hint}:help lists the rest; Ctrl-D leaves.", "dim"),
                *([Line(advice, "dim")] if advice else []),
            ]
        )

    def _where(self) -> str:
        host = self._options.afar
        if host is None:
            return ""
        return f", lent to {single(host.shown)}" if self.lends else f" of {single(host.shown)}"

    async def _converse(self, interrupts: Interrupts) -> None:
        typed = ""
        teller = asyncio.create_task(self._between.tell())
        gone = asyncio.create_task(self._gone())
        try:
            while not self.is_over:
                self._screen.end()
                self._sheet.gap()
                reading = asyncio.create_task(self._line(typed))
                try:
                    await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    reading.cancel()
                    await asyncio.wait({reading})
                if gone.done():
                    gone.result()
                text = reading.result()
                typed = ""
                self._typing("")
                if text is None:
                    return
                if colon_commands.is_local(text):
                    await colon_commands.obey(self, text)
                elif text.strip():
                    typed = await self._turn(colon_commands.for_agent(text), interrupts)
        finally:
            for task in (teller, gone):
                task.cancel()

    async def _line(self, typed: str) -> str | None:
        """What the person writes next, once no question stands there."""
        await self._person.undisturbed()
        return await self._reader.read(typed)

    async def _turn(self, text: str, interrupts: Interrupts) -> str:
        """Prompt and show the answer; gives what was typed meanwhile."""
        self._between.is_playing = True
        pulse = asyncio.create_task(self._pulse())
        with key_by_key(self._fd), self._person.listening():
            try:
                content = attachments.prompt(text, self.session.cwd, self._met.agent.capabilities)
                ours = None if self._met.company is None else partial(self._heard, text)
                self._between.mark(self._met.company)
                leave, sheet = self._met.leave, self._sheet
                turn = await play(self.session, content, self._screen, leave, interrupts, sheet, ours=ours)
            except ProtocolError as error:
                if not self._is_cut_off(error):
                    fault = died(error)
                    self._sheet.line(self._met.leave.clean(explained(fault)), "red")
                    if fault is not error:
                        self._sheet.line("the next prompt starts the agent again", "dim")
            else:
                ended(turn.stop_reason or "", self._terminal)
            finally:
                pulse.cancel()
                self._sheet.unfoot()
            self._between.is_playing = False
            typed = self._person.ahead() + self._pending()
        text = line_editor.typed_ahead(typed)
        self.is_over = not text and END in typed  # it waited, as all that is typed
        return text

    def _is_cut_off(self, error: ProtocolError) -> bool:
        """Whether the host has told already how one's own turn came to its end."""
        company = self._met.company
        is_cut = error.kind in (Kind.CONNECTION_LOST, INTERRUPTED)
        return is_cut and company is not None and company.turn != "" and company.cut_off == company.turn

    def _heard(self, text: str) -> bool:
        """Before each update: who waited for others is told again what they asked, when it is answered."""
        if self._between.is_ours_at_last():
            self._screen.end()
            self._sheet.gap()
            shown = " ".join(text.split())
            self._sheet.line(f"{PROMPT}{single(clip(shown, self._sheet.width - 3))}", "bold")
        return True

    def _pending(self) -> bytes:
        """The keys that nobody has read yet."""
        data = b""
        while select.select([self._fd], [], [], 0)[0]:
            try:
                more = os.read(self._fd, 4096)
            except OSError:  # the terminal was closed
                break
            if not more:
                break
            data += more
        return data

    async def _pulse(self) -> None:
        """Say that the agent still works, where nothing else says it."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            await asyncio.sleep(PULSE)
            if not self._met.leave.is_asking:
                self._sheet.footer(f"{loop.time() - begun:.0f} s · Ctrl-C stops it · what you type waits")

    # --- leaving a session that goes on ---------------------------------------------------------------------------

    def _part(self) -> None:
        """The person leaves, perhaps in the middle of a turn or at a question: both go on in the host."""
        turn = "the agent goes on" if self._between.is_playing else ""
        self._parting.begin(self._detach, "the question stays open" if self.leave.is_asking else turn)

    async def _detach(self) -> None:
        await self._met.agent.request("session/detach", {"sessionId": self.session.id})

    def _say_way_back(self) -> None:
        """How to go on with a session in a host."""
        host = self._options.afar
        if host is not None:
            name = self._met.log if self.session is self._met.session else self.session.id
            self._sheet.line(f"{self._parting.words}; come back with:", "dim")
            self._sheet.line(f"  dragoman chat {host.flag}--session {shlex.quote(single(name))}")

    # --- the others, in a host --------------------------------------------------------------------------------

    def _typing(self, text: str) -> None:
        """Let the others see that the person writes, and when not any more."""
        state = "typing" if text.strip() else "here"
        company = self._met.company
        if company is not None and state != company.state:
            company.state = state
            self._met.agent.notify("_dragoman/presence", {"sessionId": self.session.id, "state": state})

    async def _gone(self) -> None:
        """Returns never but when the agent is gone: then it raises why."""
        while True:
            session = self.session
            async for _ in session.follow():
                pass
            failure = session.connection.failure
            if failure is not None:
                raise failure
            if session is self.session:
                raise ConnectionFailed("the agent closed the session")

    # --- the line ---------------------------------------------------------------------------------------------

    def _completed(self, before: str) -> Iterable[Candidate]:
        if colon_commands.is_local(before):
            return colon_commands.completed(before, self.session)
        commands = [(command.name, command.description) for command in self.session.commands]
        return [*completer.slash(before, commands), *completer.files(before, self.session.cwd)]

    def _status(self) -> str:
        return status(self._met, self.session)[: self._sheet.width - 1] or " "
