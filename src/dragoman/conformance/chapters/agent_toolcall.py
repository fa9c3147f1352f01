"""Tool calls: what is told of them, and how their status moves."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 9
OFFICIAL = ("v1", "banjo")

CHAPTER = chapter(
    "agent.toolcall",
    "Tool calls",
    [
        must("01", "A tool call has an id and a title.", "reference 1.8"),
        must("02", "The kind of a tool call is known.", "reference 1.9"),
        must("03", "The status of a tool call is known.", "reference 1.9"),
        must("04", "What is told of a tool call was announced before.", "peers.md 18"),
        should("05", "Every tool call of a session has an id of its own.", "peers.md 18"),
        should("06", "At the end of a turn every tool call is finished.", "reference 1.9, peers.md 18"),
        must("07", "A tool call that is finished stays finished.", "reference 1.9, seed 004 8.2"),
        must("08", "The content of a tool call is a list of contents, diffs and terminals.", "reference 1.9"),
        must("09", "The path of a location is absolute.", "reference 1.1"),
        must("10", "A diff has an absolute path and the new text.", "reference 1.9"),
        must("11", "A terminal that is shown was made by the client.", "reference 1.9, peers.md 26", "v1", "banjo"),
        must("12", "A tool call that runs does not go back to waiting.", "reference 1.9"),
        must("13", "The line of a location is a whole number.", "reference 1.9, peers.md 23"),
        should("14", "A tool call says what kind it is.", "reference 1.9, peers.md 18"),
        should("15", "A tool call says what it was given.", "reference 1.8"),
    ],
    dialects=OFFICIAL,
)
