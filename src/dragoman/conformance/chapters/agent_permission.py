"""Permission: how an agent asks, and what it does with the answer."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 10
OFFICIAL = ("v1", "banjo")
ASKING = ("v1", "banjo", "crow", "draft")

CHAPTER = chapter(
    "agent.permission",
    "Permission",
    [
        must("01", "A question has a session, a tool call and at least one option.", "reference 1.10", *OFFICIAL),
        must("02", "Every option has an id, a name and a known kind.", "reference 1.10, peers.md C3 27", *OFFICIAL),
        must("03", "No two options of a question have the same id.", "reference 1.10", *OFFICIAL),
        should("04", "The tool call of a question was announced before.", "peers.md 18", *OFFICIAL),
        must("05", "What was refused is not done.", "reference 1.10, seed 004 14.1", *ASKING),
        must("06", "Nothing is done before the answer.", "reference 1.10, seed 004 8.1", *ASKING),
        must("07", "A question that was closed without an answer is no leave.", "reference 1.10", *OFFICIAL),
        must("08", "A turn in which something was refused comes to an end.", "reference 1.10", *ASKING),
        should("09", "A tool call that was refused is not told as completed.", "reference 1.10", *OFFICIAL),
        must("10", "An error in answer to a question is no leave.", "reference 1.10", "v1", "banjo", "draft"),
        must("11", "An option that was not offered is no leave.", "reference 2.1 permission", *OFFICIAL),
        must("12", "A question names the session it belongs to.", "reference 1.10", "v1", "banjo", "draft"),
        must("13", "An answer that makes no sense is no leave.", "reference 1.14", *OFFICIAL),
        must("14", "A question is a request, with an id.", "reference 1.10", "v1", "banjo", "draft"),
        should("15", "A question offers a way to refuse.", "reference 1.10", *OFFICIAL),
    ],
)
