"""`python -m interop.check`: check real agents, and the examples of the official SDKs, against the protocol.

Installs what `make interop` has not installed yet. Runs `dragoman check agent` on each, with the fake model behind
it, a home of its own and no way out but loopback. `--only NAME` checks some; `--out FOLDER` is where the reports go;
what follows `--` is passed to the check.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from interop import loopback
from interop.counterparts import AGENTS, EXAMPLES, Place
from interop.install import CACHE, install, node, place
from interop.model.server import Model
from interop.run import environment, make_home, tell

SCRIPT = Path(__file__).parent / "check.toml"
CHECKED = (*EXAMPLES, *AGENTS)
TIMEOUT = 7200  # seconds for one agent: some need ten minutes, and on a busy machine an hour
REPORT_TIMEOUT = 60  # seconds for a check to report what it has


def main() -> int:
    """Check one after the other; the exit code is 0 if every check ran to its end."""
    words = sys.argv[1:]
    mark = words.index("--") if "--" in words else len(words)
    names = [counterpart.name for counterpart in CHECKED]
    parser = argparse.ArgumentParser(prog="python -m interop.check", description=__doc__)
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--out", type=Path, default=CACHE / "check", metavar="FOLDER")
    options = parser.parse_args(words[:mark])
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [counterpart for counterpart in CHECKED if not options.only or counterpart.name in options.only]
    bin = node(tell)
    missing = install(chosen, bin, tell)
    base = environment(bin, alone=False) | loopback.closed_proxies()
    ended = not missing
    with tempfile.TemporaryDirectory(prefix="interop-") as temporary, Model() as model:
        for counterpart in chosen:
            if counterpart.name in missing:
                continue
            where = Place(place(counterpart), model.url(counterpart.name))
            env = make_home(counterpart, where, Path(temporary) / counterpart.name, base)
            report = options.out / counterpart.name
            command = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *counterpart.command(where)]
            check = [sys.executable, "-m", "dragoman", "check", "agent", "--script", str(SCRIPT), *words[mark + 1 :]]
            check += ["--json", f"{report}.json", "--html", f"{report}.html", "--", *command]
            tell(f"== {counterpart.name} {counterpart.version}")
            ended &= _run(check) in (0, 1)
    return 0 if ended else 1


def _run(command: list[str]) -> int:
    """Run a check; after the timeout it reports what was tested until then."""
    with subprocess.Popen(command) as running:
        try:
            return running.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
            return running.wait(REPORT_TIMEOUT)


if __name__ == "__main__":
    sys.exit(main())
