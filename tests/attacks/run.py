"""The attack run: command lines, file calls and tokens at random, far more than in the tests.

    python -m tests.attacks.run --lines 228630 --calls 31250 --seed 1

Prints the counts; exits 1 if anything that must be refused was not. `make attack-run` runs it, and all other attacks of
docs/security.md. Needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.attacks import bad_tokens, command_lines, file_calls


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=228_630, help="command lines")
    parser.add_argument("--calls", type=int, default=31_250, help="file calls")
    parser.add_argument("--seed", default=os.urandom(4).hex())
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    escapes: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(os.path.realpath(name), part) for part in ("files", "lines", "tokens")]
        for folder in folders:
            folder.mkdir()
        files = file_calls.attack(folders[0], options.calls)
        print(f"file calls: {files.calls} during {files.swaps} swaps, {files.results}", flush=True)
        escapes += files.escapes
        for kind, lines in command_lines.attack(folders[1], options.lines, options.seed).items():
            print(f"command lines, {kind}: {lines.lines}, of which {lines.executed} were executed", flush=True)
            escapes += lines.escapes
        tokens = asyncio.run(bad_tokens.attack(folders[2], options.seed))
        print(f"bad tokens: {tokens.requests} requests, by status {tokens.statuses}", flush=True)
        escapes += tokens.escapes
    print("\n".join(f"escaped: {each!r}" for each in escapes) or "nothing escaped")
    return 1 if escapes else 0


if __name__ == "__main__":
    sys.exit(main())
