"""Choices: modes, options and sessions from before, where a client takes up what its agent offers."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must

PLACE = 3

CHAPTER = chapter(
    "client.choice",
    "Modes, options, old sessions",
    [
        must("01", "A mode that is chosen is one that the session offers.", "reference 1.11"),
        must("02", "A mode that the agent refuses does not break the client.", "reference 1.11"),
        must("03", "An option is set by its id, to a value that it has.", "reference 1.11"),
        must("04", "A session is loaded by its id, in an absolute folder, with a list of servers.", "reference 1.5"),
        must("05", "What is told of the past while a session is loaded is borne.", "reference 1.5, peers.md 36"),
        must("06", "In a session that could not be loaded nothing is prompted.", "reference 1.5, peers.md C3 29"),
        must("07", "A list of sessions is read on with the cursor that it gave.", "reference 1.5"),
        must("08", "A session is resumed by its id, in an absolute folder.", "reference 1.5"),
    ],
    dialects=("v1",),
)
