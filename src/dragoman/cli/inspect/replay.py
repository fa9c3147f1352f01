"""`dragoman inspect replay`: play a recording as a mock agent for a client under test, or as a client for an agent."""

from __future__ import annotations

import sys
from itertools import pairwise

from dragoman.cli.inspect.files import report_problems
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize
from dragoman.engine.loop import run as run_loop
from dragoman.inspect.format import TO_AGENT, TO_CLIENT, RecordedLine
from dragoman.inspect.open_recording import open_recording, read_lines
from dragoman.inspect.reader import NotARecording, RecordingReader
from dragoman.inspect.replay_player import REPLY_TIMEOUT, play_script
from dragoman.inspect.replay_script import ReplayScript

EXIT_MISMATCH = 3

EPILOG = """\
As an agent it speaks on standard input and output, for the client under test to start; as a client it starts the agent
after `--`. Ids of requests, sessions and terminals, folders and times never have to match. Strict wants the rest as it
was recorded, in that order, and ends at the first difference; lenient takes requests in any order and with other
content, answers those that come once more as before, and refuses those that were never made.

exit codes: 0 as recorded, 1 an error, 2 wrong usage, 3 the peer did something else (stderr says what).

examples:
  dragoman inspect replay talk.ndjson --as agent                (the command to give to a client under test)
  dragoman inspect replay talk.ndjson --as client --strict --ignore params.clientInfo -- my-agent --acp
  dragoman inspect replay talk.ndjson --as agent --speed original"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then play."""
    parser = Parser(f"inspect {name}", "FILE --as agent|client [OPTIONS] [-- CMD ARG...]", "Play a recording.", EPILOG)
    parser.add_argument("file", metavar="FILE", help="a recording")
    parser.add_argument("--as", dest="role", required=True, choices=("agent", "client"), help="which peer to play")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--strict", action="store_true", help="order and content must match")
    how.add_argument("--lenient", action="store_true", help="any order; this is the way without either")
    parser.add_argument("--speed", choices=("fast", "original"), default="fast", help="at once, or as it was (fast)")
    parser.add_argument(
        "--ignore", metavar="PATH", action="append", default=[], help="strict: a member that may differ"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=REPLY_TIMEOUT, help=f"client: patience ({REPLY_TIMEOUT:g})"
    )
    options, command = parser.read(arguments)
    if options.role == "client" and not command:
        parser.error("name the agent to start after --, as in: -- my-agent --acp")
    if options.role == "agent" and command:
        parser.error("as an agent it is started by the client under test; leave the command out")
    if options.role == "agent" and options.file == "-":
        parser.error("standard input is the client's; name a file")
    reader = RecordingReader()
    with open_recording(options.file) as file:
        frames = list(reader.read(read_lines(file, reader)))
    if not any(frame.direction in (TO_AGENT, TO_CLIENT) for frame in frames):
        raise NotARecording(f"{options.file}: no message was recorded, so there is nothing to play")
    report_problems(options.file, reader)
    we = TO_CLIENT if options.role == "agent" else TO_AGENT
    script = ReplayScript(frames, we, options.strict, frozenset(options.ignore))
    wrong = run_loop(_replay(script, command, options.speed == "original", options.timeout, frames))
    for each in wrong:
        print(f"dragoman inspect replay: {sanitize(each)}", file=sys.stderr)
    return EXIT_MISMATCH if wrong else 0


async def _replay(
    script: ReplayScript, command: list[str], original_speed: bool, timeout: float, frames: list[RecordedLine]
) -> list[str]:
    if command:
        from dragoman.transport.process.transport import spawn

        transport = await spawn(command, stderr=_forward_stderr)
        # In its own time, an agent may need as long as it did then, and the patience on top.
        pauses = [(after.t or 0) - (before.t or 0) for before, after in pairwise(frames)] if original_speed else []
        longest = max(pauses, default=0) / 1e6
        try:
            return await play_script(
                script, transport, initiates=True, original_timing=original_speed, timeout=timeout + longest
            )
        finally:
            await transport.close("the recording is over")
    from dragoman.transport.stdio import stdio

    client = stdio()
    try:
        return await play_script(script, client, initiates=False, original_timing=original_speed)
    finally:
        await client.close("the recording is over")


def _forward_stderr(data: bytes) -> None:
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()
