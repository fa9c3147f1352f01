"""Options that make a program that mostly reads write a file or run another program. Pure.

A rule that allows the first words of a command does not cover them, unless it names them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Characters for which a shell puts names of files.
_EXPANDED = re.compile(r"[*?\[]")
# A path that may lead out of the folder. "a..b" is a range of commits.
_OUTSIDE = re.compile(r"^[/~]|(?:^|/)\.\.(?:/|$)")


class RiskyOptions(NamedTuple):
    """The options of one program."""

    long: tuple[str, ...] = ()  # also abbreviated, and with a value after "="
    letters: str = ""  # also among other letters
    words: tuple[str, ...] = ()  # exactly these words
    starts: tuple[str, ...] = ()  # words that start with one of these
    most_names: int | None = None  # a further name is a file that is written


RISKY_OPTIONS: dict[str, RiskyOptions] = {
    "ack": RiskyOptions(("--pager", "--ackrc")),
    "ag": RiskyOptions(("--pager",)),
    "bat": RiskyOptions(("--pager", "--generate-config-file")),
    "curl": RiskyOptions(
        (
            "--output",
            "--output-dir",
            "--remote-name",
            "--remote-name-all",
            "--config",
            "--dump-header",
            "--cookie-jar",
            "--trace",
            "--trace-ascii",
            "--stderr",
            "--libcurl",
            "--etag-save",
            "--hsts",
            "--alt-svc",
        ),
        "oOKDcJ",
    ),
    "delta": RiskyOptions(("--pager",)),
    "fd": RiskyOptions(("--exec", "--exec-batch"), "xX"),
    "find": RiskyOptions(
        words=("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls")
    ),
    "file": RiskyOptions(("--compile",), "C"),
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
    # The options of go have one or two hyphens.
    "go": RiskyOptions(
        starts=tuple(f"{hyphens}{name}" for hyphens in ("-", "--") for name in ("toolexec", "vettool", "exec"))
    ),
    # The configuration of another repository runs programs.
    "hg": RiskyOptions(("--config", "--output", "--repository", "--cwd"), "oR"),
    "jj": RiskyOptions(("--config", "--config-toml", "--config-file", "--repository", "--tool"), "R"),
    # A configuration names programs that log in.
    "kubectl": RiskyOptions(("--kubeconfig", "--profile-output", "--cache-dir")),
    "less": RiskyOptions(("--log-file", "--LOG-FILE", "--lesskey-file", "--lesskey-src"), "oOk", starts=("+",)),
    "man": RiskyOptions(("--pager", "--html", "--preprocessor", "--config-file"), "PHC"),
    "nm": RiskyOptions(("--plugin",)),
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
            "--index-file",
            "--volno-file",
            "--listed-incremental",
        ),
        "IFg",
    ),
    # -R writes a file into each folder.
    "tree": RiskyOptions(letters="oR"),
    "uniq": RiskyOptions(most_names=1),
    "xxd": RiskyOptions(most_names=1),
    "yq": RiskyOptions(("--inplace", "--split-exp"), "is"),
}


# Those of one subcommand of git, besides the ones above. What a subcommand always writes or runs is not listed.
GIT_OPTIONS: dict[str, RiskyOptions] = {
    "apply": RiskyOptions(("--unsafe-paths", "--build-fake-ancestor")),
    "archive": RiskyOptions(("--add-file",), "o"),
    "bisect": RiskyOptions(words=("run",)),
    "bugreport": RiskyOptions(("--output-directory",), "o"),
    "checkout-index": RiskyOptions(("--prefix",)),
    # The configuration and the hooks of a template run programs.
    "clone": RiskyOptions(("--config", "--template", "--separate-git-dir"), "cu"),
    "daemon": RiskyOptions(("--access-hook", "--pid-file")),
    "diagnose": RiskyOptions(("--output-directory",), "o"),
    "difftool": RiskyOptions(("--extcmd",), "x"),
    "fast-export": RiskyOptions(("--export-marks",)),
    "fast-import": RiskyOptions(("--export-marks", "--export-pack-edges")),
    "filter-branch": RiskyOptions(
        (
            "--setup",
            "--env-filter",
            "--tree-filter",
            "--index-filter",
            "--parent-filter",
            "--msg-filter",
            "--commit-filter",
            "--tag-name-filter",
        ),
        "d",
    ),
    "format-patch": RiskyOptions(("--output-directory",), "o"),
    "index-pack": RiskyOptions(letters="o"),
    "init": RiskyOptions(("--template", "--separate-git-dir")),
    "instaweb": RiskyOptions(("--httpd", "--browser", "--module-path"), "dbm"),
    "interpret-trailers": RiskyOptions(("--in-place",)),
    "mailsplit": RiskyOptions(letters="o"),
    "read-tree": RiskyOptions(("--index-output",)),
    "rebase": RiskyOptions(letters="x"),
    "repack": RiskyOptions(("--expire-to", "--filter-to")),
    "send-email": RiskyOptions(("--to-cmd", "--cc-cmd", "--header-cmd", "--sendmail-cmd", "--smtp-server")),
    "submodule": RiskyOptions(words=("foreach",)),
    "svn": RiskyOptions(("--authors-prog",)),
}

# Options of git before the subcommand that take the next word.
_GIT_VALUES = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source"}
)


def has_risky_option(argv: tuple[str, ...], named: int, is_wild: bool) -> bool:
    """Return whether one of the words after the first `named` is such an option, or may become one when a shell expands
    names (`is_wild`).
    """
    name = argv[0].rpartition("/")[2]
    tables = [RISKY_OPTIONS[name]] if name in RISKY_OPTIONS else []
    if name == "git":
        subcommand = _git_subcommand(argv)
        if subcommand in GIT_OPTIONS:
            tables.append(GIT_OPTIONS[subcommand])
        if subcommand == "diff" and _compares_outside(argv[named:]):
            return True
    if not tables:
        return False
    names = sum(not word.startswith("-") for word in argv[1:])
    return any(
        (risky.most_names is not None and (names > risky.most_names or is_wild))
        or any(_is_risky(risky, word, is_wild) for word in argv[named:])
        for risky in tables
    )


def _compares_outside(words: tuple[str, ...]) -> bool:
    """Return whether git compares two files, one of them outside the repository: --no-index is then not needed."""
    names = [word for word in words if not word.startswith("-") or word == "-"]
    return len(names) > 1 and any(map(_OUTSIDE.search, names))


def _git_subcommand(argv: tuple[str, ...]) -> str:
    words = iter(argv[1:])
    for word in words:
        if word in _GIT_VALUES:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def _is_risky(risky: RiskyOptions, word: str, is_wild: bool) -> bool:
    if is_wild and _EXPANDED.search(word) and (word[0] in "*?[-" or any(word[0] == each[0] for each in risky.words)):
        return True
    if word in risky.words or word.startswith(risky.starts):
        return True
    if word.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 2 and any(option.startswith(name) for option in risky.long)
    return word.startswith("-") and any(letter in risky.letters for letter in word[1:])
