"""Options that make a program that mostly reads write a file or run another program. Pure.

A rule that allows the first words of a command does not cover them, unless it names them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Characters for which a shell puts names of files.
_EXPANDED = re.compile(r"[*?\[]")


class RiskyOptions(NamedTuple):
    """The options of one program."""

    long: tuple[str, ...] = ()  # also abbreviated, and with a value after "="
    letters: str = ""  # also among other letters
    words: tuple[str, ...] = ()


RISKY_OPTIONS: dict[str, RiskyOptions] = {
    "bat": RiskyOptions(("--pager",)),
    "fd": RiskyOptions(("--exec", "--exec-batch"), "xX"),
    "find": RiskyOptions(
        words=("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls")
    ),
    # --no-index and --contents read any file; -O of grep starts a pager.
    "git": RiskyOptions(
        (
            "--output",
            "--no-index",
            "--contents",
            "--open-files-in-pager",
            "--exec",
            "--upload-pack",
            "--receive-pack",
        ),
        "O",
    ),
    "hg": RiskyOptions(("--config", "--output"), "o"),
    "man": RiskyOptions(("--pager", "--html", "--preprocessor"), "PH"),
    "rg": RiskyOptions(("--pre", "--hostname-bin")),
    "sort": RiskyOptions(("--output", "--compress-program"), "o"),
    "tar": RiskyOptions(
        (
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--rmt-command",
        ),
        "IF",
    ),
    "tree": RiskyOptions(letters="o"),
    "yq": RiskyOptions(("--inplace", "--split-exp"), "is"),
}


def has_risky_option(program: str, words: tuple[str, ...], is_wild: bool) -> bool:
    """Return whether one of these words is such an option, or may become one when a shell expands names (`is_wild`)."""
    risky = RISKY_OPTIONS.get(program.rpartition("/")[2])
    return risky is not None and any(_is_risky(risky, word, is_wild) for word in words)


def _is_risky(risky: RiskyOptions, word: str, is_wild: bool) -> bool:
    if is_wild and _EXPANDED.search(word) and word[0] in "*?[-":
        return True
    if word.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 2 and any(option.startswith(name) for option in risky.long)
    return word.startswith("-") and (word in risky.words or any(letter in risky.letters for letter in word[1:]))
