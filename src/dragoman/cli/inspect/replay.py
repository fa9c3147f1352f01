"""`dragoman inspect replay`: play a recording as a mock agent for a client, or as a mock client for an agent."""

from __future__ import annotations

import sys
from itertools import pairwise

from dragoman.cli.inspect.show import report_problems
from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line
from dragoman.engine.loop import run as run_loop
from dragoman.inspect.reader import NotARecording, RecordingReader
from dragoman.inspect.replay import REPLY_TIMEOUT, ReplayScript, play_script
from dragoman.transport.recording.format import TO_AGENT, TO_CLIENT, RecordedLine

EXIT_MISMATCH = 3

EPILOG = """\
As an agent, it uses standard input and output; the client under test starts it.
As a client, it starts the agent after `--`. Ids of requests, sessions and
terminals, folders and times never have to match. With --strict, everything else
must match in the recorded order, and the first difference ends the replay. With
--lenient, requests can come in any order and with other content; a repeated
request gets the recorded answer, and an unknown request is refused.

exit codes: 0 as recorded, 1 an error, 2 wrong usage, 3 the peer did something
else (stderr says what).

examples:
  dragoman inspect replay talk.ndjson --as agent
      (configure this as the agent of the client under test)
  dragoman inspect replay talk.ndjson --as client --strict \\
      --ignore params.clientInfo -- my-agent --acp
  dragoman inspect replay talk.ndjson --as agent --speed original"""


def main(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then play the recording."""
    parser = Parser(
        name,
        "FILE --as agent|client [OPTIONS] [-- CMD ARG...]",
        "Play a recording as a mock peer.",
        EPILOG,
    )
    parser.add_argument("file", metavar="FILE", help="a recording")
    parser.add_argument("--as", dest="role", required=True, choices=("agent", "client"), help="the peer to play")
    mode_group = parser.add_mutually_exclusive_group()
    mode_group.add_argument("--strict", action="store_true", help="order and content must match")
    mode_group.add_argument("--lenient", action="store_true", help="requests can come in any order (the default)")
    parser.add_argument(
        "--speed", choices=("fast", "original"), default="fast", help="send at once, or with the recorded timing (fast)"
    )
    parser.add_value("--ignore", "PATH", "strict: ignore this member; can be repeated", repeated=True)
    parser.add_value(
        "--timeout",
        "S",
        f"client: timeout of an answer in seconds ({REPLY_TIMEOUT:g})",
        type=float,
        default=REPLY_TIMEOUT,
    )
    options, command = parser.read(arguments)
    if options.role == "client" and not command:
        parser.error("give the command of the agent after --, as in: -- my-agent --acp")
    if options.role == "agent" and command:
        parser.error("with --as agent, the client under test starts it; omit the command")
    if options.role == "agent" and options.file == "-":
        parser.error("standard input belongs to the client; give a file")
    reader = RecordingReader()
    frames = list(reader.read_file(options.file))
    if not any(frame.direction in (TO_AGENT, TO_CLIENT) for frame in frames):
        raise NotARecording(f"{options.file}: no messages were recorded, so there is nothing to play")
    report_problems(options.file, reader)
    own_direction = TO_CLIENT if options.role == "agent" else TO_AGENT
    script = ReplayScript(frames, own_direction, options.strict, frozenset(options.ignore))
    mismatches = run_loop(_replay(script, command, options.speed == "original", options.timeout, frames))
    for each in mismatches:
        print(f"dragoman inspect replay: {sanitize_line(each)}", file=sys.stderr)
    return EXIT_MISMATCH if mismatches else 0


async def _replay(
    script: ReplayScript, command: list[str], original_speed: bool, timeout: float, frames: list[RecordedLine]
) -> list[str]:
    if command:
        from dragoman.transport.process.transport import spawn

        def forward_stderr(data: bytes) -> None:
            sys.stderr.buffer.write(data)
            sys.stderr.buffer.flush()

        transport = await spawn(command, stderr=forward_stderr)
        # With the recorded timing, an agent gets its longest recorded pause on top of the timeout.
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
