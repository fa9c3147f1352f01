"""Terminals that a client lends its agent."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must

PLACE = 9
NEEDS = "client.terminal"

CHAPTER = chapter(
    "client.terminal",
    "Terminals",
    [
        must("01", "terminal/create is answered at once, not when the command ends.", "reference 1.12", needs=NEEDS),
        must("02", "The output has a text and says whether it was cut.", "reference 1.12", needs=NEEDS),
        must("03", "The end of a command is told with its exit code.", "reference 1.12", needs=NEEDS),
        must("04", "A killed terminal still has its output.", "reference 1.12", needs=NEEDS),
        must("05", "A released terminal is gone.", "reference 1.12", needs=NEEDS),
        must("06", "Output over the limit loses its beginning, and says so.", "reference 1.12", needs=NEEDS),
        must("07", "Arguments and environment reach the command.", "reference 1.12", needs=NEEDS),
        must("08", "A command runs in the folder it was given.", "reference 1.12", needs=NEEDS),
        must("09", "While somebody waits for a command, others are answered.", "reference 1.1", needs=NEEDS),
        must("10", "A command that runs has no exit status yet.", "reference 1.12", needs=NEEDS),
        must("11", "A terminal nobody made is an error.", "reference 1.12", needs=NEEDS),
        must("12", "A command that cannot be started is an error, and nothing worse.", "reference 1.12", needs=NEEDS),
        must("13", "Who waits for a command that is killed gets an answer.", "peers.md 30", needs=NEEDS),
        must("14", "Release ends a command that still runs.", "reference 1.12", needs=NEEDS),
        must("15", "Without the capability no command is run.", "reference 1.2", needs=f"!{NEEDS}"),
    ],
    dialects=("v1", "banjo"),
)
