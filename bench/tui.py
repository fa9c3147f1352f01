"""What the full-screen terminal costs: its start next to chat, a stream of 200 chunks a second, one more message.

All figures are CPU time of the process, so that they can be taken on a busy machine; the screen is a pseudo-terminal
that is read and thrown away. Takes our command and an empty folder; gives figures. Above is measure.
"""

import os
import pty
import select
import signal
import struct
import sys
import termios
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from statistics import median
from time import monotonic

from bench.setup import environment

DEADLINE = 120.0  # seconds for one of them on a busy machine
COLUMNS, LINES = 160, 50
RATE = 200  # chunks a second

# Sends RATE chunks a second, for the seconds that the prompt says.
STREAMING_AGENT = """
import asyncio
from dragoman import Agent
agent = Agent("streaming")
@agent.prompt
async def answer(turn):
    for number in range(int(turn.text) * 200):
        if number % 1000 == 999:
            await turn.think("What next?")  # one message would be longer than faces show at once
        await turn.say(f"word{number} **bold** and `code`, " + ("\\n\\n" if number % 20 == 19 else ""))
        if number % 10 == 9:
            await asyncio.sleep(0.05)
    open("finished", "w").close()
agent.run()
"""


class Screen:
    """A command on a pseudo-terminal."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.output = b""
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            places = {name: str(folder / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
            os.chdir(folder)
            os.execvpe(command[0], command, environment() | places | {"TERM": "xterm-256color", "LANG": "C.UTF-8"})
        ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    def wait_for(self, text: str) -> None:
        """Read until a text was written."""
        self._read_until(lambda: text.encode() in self.output, text)

    def wait_for_file(self, path: Path) -> None:
        """Read until a file is there: a screen that scrolls writes only the characters that differ."""
        self._read_until(path.exists, path.name)

    def _read_until(self, reached: Callable[[], bool], what: str) -> None:
        """Read; questions about the cursor are answered."""
        deadline = monotonic() + DEADLINE
        while not reached():
            if monotonic() > deadline:
                raise TimeoutError(f"{what!r} did not appear")
            if select.select([self._master], [], [], 0.5)[0]:
                data = os.read(self._master, 65536)
                self.output += data
                if b"\x1b[6n" in data:
                    os.write(self._master, b"\x1b[1;1R")

    def type(self, text: str) -> None:
        """Type keys; what was read before is forgotten."""
        self.output = b""
        os.write(self._master, text.encode())

    def cpu(self) -> float:
        """CPU seconds of the process so far, without its agent."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """End the command."""
        os.kill(self.pid, signal.SIGTERM)
        deadline = monotonic() + DEADLINE
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0) and monotonic() < deadline:
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    os.read(self._master, 65536)
                except OSError:
                    continue
        os.close(self._master)


def start(dragoman: str, count: int, folder: Path) -> dict[str, float]:
    """CPU milliseconds until the prompt stands, of tui and of chat, in turns; the first pair is not counted."""
    agent = ["--", dragoman, "agent", "everything"]
    ways = {"tui": ([dragoman, "tui", *agent], "● live"), "chat": ([dragoman, "chat", *agent], "Ask · Plain")}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(count + 1):
        for name, (command, ready) in ways.items():
            screen = Screen(command, folder)
            screen.wait_for(ready)
            times[name].append(screen.cpu() * 1e3)
            screen.end()
    tui, chat = (median(times[name][1:]) for name in ways)
    return {"tui_ms": tui, "chat_ms": chat, "ratio": tui / chat}


def stream(dragoman: str, seconds: int, folder: Path) -> dict[str, float]:
    """Percent of one core while chunks stream in."""
    (folder / "agent.py").write_text(STREAMING_AGENT)
    screen = Screen([dragoman, "tui", "--", sys.executable, str(folder / "agent.py")], folder)
    screen.wait_for("● live")
    before, began = screen.cpu(), monotonic()
    screen.type(f"{seconds}\r")
    screen.wait_for_file(folder / "finished")
    used, passed = screen.cpu() - before, monotonic() - began
    screen.end()
    # A busy machine slows the agent down; what counts is the work for one second of the stream.
    return {"core_percent": used / max(seconds, 1) * 100, "seconds": passed}


def message(count: int) -> dict[str, float]:
    """CPU milliseconds for one more message and its frame, at 100 messages and at `count`."""
    few, many = _message_cost(100), _message_cost(count)
    return {"few_ms": few, "many_ms": many, "ratio": many / few}


def _message_cost(count: int, rounds: int = 50) -> float:
    from prompt_toolkit.layout.mouse_handlers import MouseHandlers
    from prompt_toolkit.layout.screen import Screen as Cells
    from prompt_toolkit.layout.screen import WritePosition

    from dragoman.schema.content import TextContent
    from dragoman.schema.update import AgentMessageChunk
    from dragoman.tui.flow.flow import Flow
    from dragoman.tui.flow.view import FlowView
    from dragoman.tui.painter import Painter, Region

    flow = Flow("/")
    text = "One **message** with `code`.\n\n- a list\n- of two\n\n```python\nreturn 1\n```\n" * 8

    def add(number: int) -> None:
        flow.apply(AgentMessageChunk(content=TextContent(text=text), message_id=f"m{number}"))

    for number in range(count):
        add(number)
    view = FlowView(flow)
    view.height, view.options = LINES - 4, view.options._replace(width=COLUMNS - 66)
    painter = Painter(lambda width, height: [Region(0, 0, width, [each.row for each in view.visible()])])

    def draw() -> None:
        place = WritePosition(0, 0, COLUMNS, LINES)
        painter.write_to_screen(Cells(), MouseHandlers(), place, "", False, None)

    draw()
    began = os.times()
    for number in range(rounds):
        add(count + number)
        draw()
    ended = os.times()
    return (ended.user + ended.system - began.user - began.system) / rounds * 1e3
