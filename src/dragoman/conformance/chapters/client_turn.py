"""How a turn ends, and what its answer may look like."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must

PLACE = 6

CHAPTER = chapter(
    "client.turn",
    "The end of a turn",
    [
        must("01", "A turn may end with max_tokens.", "reference 1.7", "v1", "banjo", "draft"),
        must("02", "A turn may end with max_turn_requests.", "reference 1.7", "v1", "banjo"),
        must("03", "A turn may end with refusal.", "reference 1.7", "v1", "banjo"),
        must(
            "04",
            "A turn may end with cancelled though nobody cancelled it.",
            "peers.md 10",
            "v1",
            "banjo",
            "crow",
            "draft",
        ),
        must("05", "A turn may end for a reason nobody knows.", "peers.md P4", "v1", "banjo"),
        must("06", "The usage in an answer may be null.", "peers.md 21", "v1", "banjo"),
        must("07", "Members nobody knows in an answer are ignored.", "peers.md 21", "v1", "banjo"),
        must("08", "A turn may end with an error, and the client does not break down.", "reference 1.14"),
        must("09", "A turn may end for an error.", "reference 5.5", "draft", "crow"),
        must("10", "A turn may end without saying anything.", "reference 1.7"),
        must("11", "The data of an error may be a text, a list or a tree.", "peers.md 5, 11"),
        must("12", "A session the agent no longer knows ends the turn, by whatever error.", "peers.md 10"),
    ],
)
