"""How a client meets an agent: initialize, what it may rely on, authentication."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 2

CHAPTER = chapter(
    "client.life",
    "Meeting the agent",
    [
        must("01", "The first message is initialize.", "reference 1.3"),
        must("02", "The protocol version is an integer.", "reference 1.3", "v1", "banjo", "draft", "crow"),
        # In the draft it must, which client.draft.01 is about.
        should("03", "The client tells its name and version.", "reference 1.3", "v1", "banjo", "2025.1", "crow"),
        must("04", "The capabilities for files and terminals are booleans.", "reference 1.3", "v1", "banjo"),
        must("05", "Nothing is asked before initialize was answered.", "reference 1.3"),
        should(
            "06", "An agent that answers with an unknown version is left, and no session opened.", "reference 1.3", "v1"
        ),
        must(
            "07", "An agent that tells neither name nor capabilities is met all the same.", "peers.md 24", "v1", "banjo"
        ),
        must("08", "Capabilities nobody knows are ignored.", "peers.md 21", "v1", "banjo"),
        must("09", "A null in place of an optional member is as good as its absence.", "reference 1.3", "v1", "banjo"),
        must("10", "A connection is initialized once.", "reference 1.3"),
        must("11", "What the agent does not offer is not asked for.", "reference 1.2", "v1", "banjo", "draft"),
        must(
            "12",
            "When it has to authenticate, the client names a method the agent offered for it.",
            "reference 1.4",
            "v1",
        ),
        must(
            "13",
            "A session refused for want of authentication is not asked for again and again.",
            "reference 1.4",
            "v1",
            "banjo",
            "draft",
        ),
        must("14", "Without a session there is no prompt.", "reference 1.5", "v1", "banjo", "crow", "draft"),
        should("15", "An agent may take its time to introduce itself.", "peers.md C8-59"),
    ],
)
