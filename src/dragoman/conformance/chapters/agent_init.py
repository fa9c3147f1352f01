"""The introduction: versions, capabilities, what may come before it."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 3
OFFICIAL = ("v1", "banjo")

CHAPTER = chapter(
    "agent.init",
    "Introduction",
    [
        must("01", "initialize is answered with an object.", "reference 1.3"),
        must("02", "The version in the answer is a whole number.", "reference 1.3", "v1", "banjo", "crow", "draft"),
        must("03", "A version that both know is agreed on.", "reference 1.3", "v1", "banjo", "crow", "draft"),
        must(
            "04",
            "A version that nobody has is not agreed to: the agent names its own.",
            "reference 1.3, peers.md P8",
            "v1",
        ),
        must("05", "loadSession is true or false, where it is said.", "reference 1.3", *OFFICIAL),
        must("06", "promptCapabilities and mcpCapabilities hold true or false.", "reference 1.3", *OFFICIAL),
        must("07", "Session capabilities are objects, or absent.", "reference 1.3", "v1"),
        should("08", "The agent says its name and version.", "reference 1.3, peers.md 24", "v1"),
        must("09", "The agent says its name and version.", "reference 5.1", "banjo", "2025.1", "crow", "draft"),
        must("10", "Every login offered has an id and a name.", "reference 1.4", *OFFICIAL),
        must(
            "11",
            "No session is opened before initialize: the error is that of a wrong state.",
            "reference 5.17",
            "2025.1",
            "draft",
        ),
        should("12", "No session is opened before initialize.", "reference 1.3", "v1", "banjo", "crow"),
        must("13", "A second initialize is answered, one way or the other.", "reference 1.3"),
        must("14", "Capabilities that the agent does not know are ignored.", "reference 1.3"),
        must("15", "A client need not say who it is nor what it can do.", "reference 1.3", "v1"),
        must("16", "Every method whose capability is offered is there.", "reference 1.2, peers.md 22", *OFFICIAL),
        should("17", "A method whose capability is not offered is refused.", "reference 1.2", "v1"),
        must("18", "After an initialize that was refused, a good one is taken.", "reference 2.2"),
        should("19", "A null for a capability means that it is not there.", "reference 1.3", "v1"),
    ],
)
