"""Order: what may be said when (peers.md "Ordering")."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 8

CHAPTER = chapter(
    "agent.order",
    "Order",
    [
        should(
            "01",
            "No update comes before the answer that names its session.",
            "peers.md 13, C2 18",
            "v1",
            "banjo",
            "crow",
            "draft",
        ),
        should("02", "All that is said in a turn comes before its answer.", "peers.md 14, C2 15"),
        should("03", "Nothing is said to the user outside of a turn.", "peers.md 14"),
        must("04", "Pieces of a message come in the order they were made.", "reference 1.8, peers.md P3"),
        must("05", "Requests are answered while a turn runs.", "reference 1.1"),
        should("06", "The user's words are not told back while they are answered.", "peers.md 17", "v1", "banjo"),
        should(
            "07",
            "The history of a fork is not told before the answer that names it.",
            "peers.md 13",
            "v1",
            needs="agent.sessionCapabilities.fork",
        ),
        must(
            "08", "Requests are answered while the agent waits for the client.", "reference 1.1", "v1", "banjo", "draft"
        ),
        must("09", "A mode can be chosen while a turn runs.", "reference 1.11", "v1", "banjo"),
        must("10", "A session can be opened while a turn runs.", "reference 5.4"),
    ],
)
