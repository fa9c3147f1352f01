"""`dragoman inspect run`: be the agent for a client, with the real one behind, and record all that passes."""

from __future__ import annotations

import os
import sys
import time

from dragoman.cli.parser import Parser
from dragoman.cli.ui.terminal import sanitize

# The thread that writes gives way to the one that passes messages after so long; the usual 5 ms would be felt. Seconds.
SWITCH_INTERVAL = 0.0001

EPILOG = """\
Put it where the client starts its agent. The traffic passes byte for byte, with stderr, signals and the agent's exit
code; the recording never slows or breaks it. A recording holds everything that was said, secrets too: its file is for
you alone (mode 0600), and `dragoman inspect export` makes a copy to hand on.

A file that is there is never written over: each start of the agent gets a recording of its own, talk.ndjson, then
talk-2.ndjson, talk-3.ndjson and so on. Without --out the recording goes to the folder of Dragoman's state. Both times
stderr says where.

exit codes: those of the agent; 1 when it could not be started, 2 for wrong usage.

examples:
  dragoman inspect run --out talk.ndjson -- my-agent --acp
  dragoman inspect run -- dragoman agent everything"""


def main(name: str, arguments: list[str]) -> int:
    """Read the arguments, then stand between the two until the agent ends."""
    parser = Parser(
        f"inspect {name}",
        "[--out FILE] -- CMD ARG...",
        "Start an agent for a client and record all that passes.",
        EPILOG,
    )
    parser.add_argument("--out", metavar="FILE", help="where to record; where that is taken, FILE-2, FILE-3, ...")
    parser.add_argument("--quiet", action="store_true", help="do not say where the recording is")
    options, command = parser.read_with_agent(arguments)

    from dragoman.inspect.recorder import Recorder
    from dragoman.inspect.stdio_pump import exit_like_agent, pump_stdio

    sys.setswitchinterval(SWITCH_INTERVAL)
    recorder = Recorder(options.out or _default_path(), command, _report)
    if recorder.path != options.out and not options.quiet:
        known = f"{options.out} is there already; " if options.out else ""
        _report(f"{known}recording to {recorder.path}")
    why = "the agent could not be started"
    status: int | None = None
    try:
        ended = pump_stdio(command, recorder.record)
        why, status = ended.description, ended.status
    finally:
        recorder.close(why, status)
    return exit_like_agent(ended)


def _default_path() -> str:
    """A file of its own in the folder of our state: editors start agents in any folder."""
    from dragoman.config.paths import user_paths

    folder = os.path.join(user_paths().state, "recordings")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, time.strftime(f"%Y%m%d-%H%M%S-{os.getpid()}.ndjson"))


def _report(text: str) -> None:
    try:
        print(f"dragoman inspect: {sanitize(text)}", file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody listens; the traffic matters more
