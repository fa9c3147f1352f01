"""What comes when: updates early and late, cancelling, and what may still come then."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, may, must, should

PLACE = 5

CHAPTER = chapter(
    "client.order",
    "Order",
    [
        must(
            "01",
            "An update that comes before the answer to session/new is borne.",
            "peers.md 13",
            "v1",
            "banjo",
            "draft",
        ),
        must("02", "Text that comes before the first prompt is borne.", "peers.md 14"),
        must("03", "An update that comes after the answer to the prompt is borne.", "peers.md 14", "v1", "banjo"),
        must("04", "Text is shown in the order in which it came.", "peers.md P3"),
        must("05", "Everything that came before the answer to the prompt is shown.", "peers.md P3"),
        must("06", "Thousands of updates in one turn are borne, and the last is shown.", "peers.md C2-21"),
        must("07", "Leave may be asked for a tool call nobody announced.", "peers.md 18", "v1", "banjo", "draft"),
        must("08", "A turn may end while a question is still open.", "peers.md 8", "v1", "banjo"),
        must(
            "09",
            "session/cancel is a notification that names the session.",
            "reference 1.7",
            "v1",
            "banjo",
            "2025.1",
            "draft",
        ),
        must("10", "After a cancel every question is answered with cancelled.", "reference 1.7", "v1", "banjo"),
        should("11", "After a cancel updates are still taken, until the prompt is answered.", "peers.md 15"),
        must(
            "12", "A cancelled turn may all the same end with end_turn.", "peers.md 15", "v1", "banjo", "crow", "draft"
        ),
        must("13", "A cancelled turn may all the same end with an error.", "peers.md 15"),
        must("14", "A turn may end while a tool call is still in progress.", "peers.md 18", "v1", "banjo", "draft"),
        must("15", "Text that comes after a cancelled answer is borne.", "peers.md 14", "v1", "banjo"),
        must("16", "A request of the agent is answered while a prompt is open.", "reference 1.1"),
        should(
            "17", "After a cancel the client waits for the answer to its prompt before it prompts again.", "peers.md 16"
        ),
        must("18", "A replayed history before the answer to session/new is borne.", "peers.md 13", "v1", "banjo"),
        may(
            "19",
            "A cancelled prompt may also be taken back with $/cancel_request, which names a request that is open.",
            "reference 1.7",
            "v1",
            "banjo",
        ),
    ],
)
