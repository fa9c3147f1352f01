"""`dragoman inspect run`: start an agent for a client and record all messages."""

from __future__ import annotations

import os
import sys

from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize_line

# The writer thread yields to the thread that relays messages after this time; the default 5 ms would be noticeable.
# Seconds.
SWITCH_INTERVAL = 0.0001

EPILOG = """\
Configure this command as the agent of your client. It relays all bytes
unchanged, with stderr, signals and the agent's exit code; recording never slows
down or breaks the connection. A recording contains everything, secrets too:
only you can read the file (mode 0600). To share it, make a copy with `dragoman
inspect export`.

If the command is `dragoman conduct`, the messages between all components of the
chain are recorded, too: talk.hop-2.ndjson, talk.hop-3.ndjson and so on.
`inspect export talk.ndjson --html` shows them side by side.

An existing file is never overwritten: each start of the agent gets its own
recording, talk.ndjson, then talk-2.ndjson, talk-3.ndjson and so on. Without
--out the recording goes to Dragoman's state folder. stderr says where.

exit codes: those of the agent; 1 if it could not be started, 2 for wrong usage.

examples:
  dragoman inspect run --out talk.ndjson -- my-agent --acp
  dragoman inspect run -- dragoman agent everything"""


def main(name: str, arguments: list[str]) -> int:
    """Parse the arguments, then relay until the agent exits."""
    parser = Parser(
        name,
        "[--out FILE] -- CMD ARG...",
        "Start an agent for a client and record all messages.",
        EPILOG,
    )
    parser.add_value("--out", "FILE", "file to record to; if it exists, FILE-2, FILE-3, ...")
    parser.add_flag("--quiet", "do not print the path of the recording")
    options, command = parser.read_with_agent(arguments)

    from dragoman.config.paths import new_recording_path
    from dragoman.inspect.stdio_pump import exit_like_agent, pump_stdio
    from dragoman.policy.message_secrets import FrameRedactor
    from dragoman.roles.proxy.hop_recorder import VARIABLE
    from dragoman.transport.recording.recorder import Recorder

    sys.setswitchinterval(SWITCH_INTERVAL)
    recorder = Recorder(options.out or new_recording_path(), command, _report, FrameRedactor())
    if recorder.path != options.out and not options.quiet:
        note = f"{options.out} exists; " if options.out else ""
        _report(f"{note}recording to {recorder.path}")
    os.environ[VARIABLE] = os.path.abspath(recorder.path)  # a chain records its other hops
    reason = "the agent could not be started"
    status: int | None = None
    try:
        agent_exit = pump_stdio(command, recorder.record)
        reason, status = agent_exit.description, agent_exit.status
    finally:
        recorder.close(reason, status)
    return exit_like_agent(agent_exit)


def _report(text: str) -> None:
    try:
        print(f"dragoman inspect: {sanitize_line(text)}", file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody reads stderr; the connection matters more
