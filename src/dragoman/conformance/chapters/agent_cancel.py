"""Taking back: cancelled turns, open questions, single requests."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, may, must, should

PLACE = 6
OFFICIAL = ("v1", "banjo")
STOPPING = ("v1", "banjo", "crow", "draft")
ASKING = ("v1", "banjo", "draft")

CHAPTER = chapter(
    "agent.cancel",
    "Taking back",
    [
        must("01", "A turn that is cancelled is answered soon.", "reference 1.7, peers.md 15"),
        must("02", "A turn that is cancelled is not answered with an error.", "reference 1.7, peers.md 15"),
        must("03", "A turn that is cancelled ends as cancelled.", "reference 1.7, peers.md 15", *STOPPING),
        must("04", "After a cancelled turn the next one goes its own way.", "peers.md 15"),
        must("05", "A cancel when nothing runs does nothing to the next turn.", "reference 1.7"),
        must(
            "06",
            "A cancel for a session that is not there is passed over.",
            "reference 1.7",
            "v1",
            "banjo",
            "2025.1",
            "draft",
        ),
        must(
            "07",
            "A turn cancelled at an open question ends as cancelled.",
            "reference 1.7, peers.md 15, C6 44",
            *ASKING,
        ),
        must("08", "An answer to a question that came too late is passed over.", "peers.md 8", *ASKING),
        must("09", "Cancelling twice ends a turn once.", "reference 1.7"),
        must("10", "A cancel right behind the prompt is heard.", "reference 1.7"),
        must("11", "A request taken back with $/cancel_request is still answered.", "reference 1.7", *OFFICIAL),
        must("12", "$/cancel_request for nothing is passed over.", "reference 1.7, peers.md 1", *OFFICIAL),
        must("13", "Cancelling one session leaves the others at work.", "reference 1.7"),
        should("14", "No tool call is left unfinished by a cancelled turn.", "peers.md 18", "v1", "banjo", "draft"),
        should("15", "Nothing is said after the answer to a cancelled turn.", "peers.md 14"),
        must(
            "16", "$/cancel_request takes back what the agent supports with -32800 or a result.", "reference 1.7", "v1"
        ),
        may(
            "17",
            "Questions of a cancelled turn may be taken back with $/cancel_request, which names one that is open.",
            "reference 1.7, peers.md 8",
            *OFFICIAL,
        ),
    ],
)
