"""Command lines at random, judged by rules and executed by /bin/sh, where programs record that they ran.

A line that a rule allows must run only the allowed program. A line that passes a rule that denies, in the mode that
asks nobody, must not run the denied program. Nothing here knows how lines are parsed.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import NamedTuple

from dragoman.policy.decide import Policy, decide
from dragoman.policy.parse import parse_rule_file
from dragoman.policy.question import Question

# The parts of a line. `safe` is allowed, `evil` is denied; $EVIL is evil, $EMPTY is nothing.
PARTS = (
    "safe", "evil", "safe", "evil", " ", " ", " ", " ", ";", "&&", "||", "|", "&", "\n", "'", '"', "\\", "`", "$(", ")",
    "(", "{ ", "}", "{", "<", ">", ">>", "2>&1", "<<E\n", "\nE\n", "#", "!", "$EVIL", "$EMPTY", "${EVIL}", "$'evil'",
    "$\"evil\"", "vil", "ev''il", "e\\vil", "x=evil ", "$x", "X=1 ", "env ", "eval ", "exec ", "command ", "sh -c ",
    "sh", "xargs ", "nohup ", "if ", "then ", "fi", "while ", "do ", "done", "case x in x) ", "esac", "evi?", "e[v]il",
    "*", "~", "-c ", "a", "\\\n", "ev\\\nil", '"ev\\\nil"', "\t", "\r", "\u00a0", "\x0b", "é",
)  # fmt: skip

ALLOWS = '[[rule]]\ndecision = "allow"\ncommand = [["safe"]]\n'
DENIES = '[[rule]]\ndecision = "deny"\ncommand = [["evil"]]\n'

# A line takes milliseconds; one that waits for something is no escape.
PATIENCE = 5.0


class Outcome(NamedTuple):
    """How many lines there were, how many of them were executed, and which ran what they must not."""

    lines: int
    executed: int
    escapes: list[str]


class Recorder:
    """A folder with programs that record their names."""

    def __init__(self, folder: Path) -> None:
        self._work, self._log = folder / "work", folder / "log"
        programs = folder / "programs"
        for each in (self._work, programs):
            each.mkdir()
        for name in ("safe", "evil"):
            (programs / name).write_text(f"#!/bin/sh\necho {name} >> {self._log}\n")
            (programs / name).chmod(0o755)
        for name in ("env", "sh", "xargs", "nohup"):
            os.symlink(f"/usr/bin/{name}", programs / name)
        (self._work / "evil").write_text("")  # for patterns of names
        self._environ = {"PATH": str(programs), "EVIL": "evil", "EMPTY": ""}

    def run(self, line: str) -> set[str]:
        """Run a line; return the names of the programs that ran."""
        self._log.write_text("")
        try:
            subprocess.run(
                ["/bin/sh", "-c", line],
                cwd=self._work,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PATIENCE,
            )
        except (subprocess.TimeoutExpired, ValueError):  # a NUL cannot be passed
            pass
        return set(self._log.read_text().split())


def attack(folder: Path, count: int, seed: str) -> dict[str, Outcome]:
    """Judge so many lines by each rule, and execute what passes."""
    recorder = Recorder(folder)
    found = {}
    for name, text, mode, most in (
        ("allowed", ALLOWS, "dontAsk", count),
        ("not denied", DENIES, "bypassPermissions", count // 10),  # nearly all of them are executed
    ):
        dice = random.Random(f"{seed} {name}")
        policy = Policy(files=(parse_rule_file(text, name),))
        executed, escapes = 0, []
        for _ in range(most):
            line = "".join(dice.choice(PARTS) for _ in range(dice.randint(1, 9)))
            question = Question(operation="terminal_execute", resource=line, roots=("/w",), cwd="/w", mode=mode)
            if decide(policy, question).allows:
                executed += 1
                if "evil" in recorder.run(line):
                    escapes.append(line)
        found[name] = Outcome(most, executed, escapes)
    return found
