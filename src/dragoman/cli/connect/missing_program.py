"""Say at once that a program is missing, in commands that start it only when their client connects."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence

from dragoman.cli.parser import close_word
from dragoman.cli.ui.terminal import sanitize_line

HOW_TO_NAME_IT = "install it, or give its full path"


def report_missing_program(
    who: str, command: Sequence[str], env: Mapping[str, str] | None = None, known: Iterable[str] = ()
) -> None:
    """Print a line to stderr if the program of this command is not there; `known` are other words that were possible.

    The command goes on: its client gets the same error, and shows it where the user looks.
    """
    program, path = command[0], (env or {}).get("PATH")
    is_file = os.sep in program
    if shutil.which(program, path=path) is not None or (is_file and os.path.exists(program)):
        return
    if is_file:
        why = "there is no such file; check the path"
    elif os.path.isfile(program):
        why = f"there is no such command on PATH; for the file in this folder, write ./{program}, or its interpreter "
        why += f"before it, both in quotes: 'python {program}'" if known else "before it"
    else:
        close = close_word(program, known)
        why = f"there is no such command on PATH; {f'did you mean {close}?' if close else HOW_TO_NAME_IT}"
    text = f"{who} cannot be started: {program}: {why}"
    print(f"dragoman: {sanitize_line(text)}", file=sys.stderr, flush=True)
