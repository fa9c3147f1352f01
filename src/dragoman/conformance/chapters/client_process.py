"""How a client treats the process of its agent."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 11

CHAPTER = chapter(
    "client.process",
    "The agent's process",
    [
        must("01", "What the agent writes to stderr never blocks it.", "peers.md P1"),
        must("02", "An agent that ignores the end of its input is not left running.", "peers.md 12"),
        should("03", "An agent that also ignores TERM is not left running.", "peers.md 12"),
        must("04", "An agent behind a shell, npx or uvx is not left running.", "peers.md P2"),
        must("05", "An agent that dies in a turn ends the turn.", "peers.md C1-14"),
        must("06", "An agent that dies before it introduced itself is given up.", "peers.md C1-14"),
        must("07", "An agent that closes its output is given up.", "peers.md C1-14"),
        should("08", "When the agent died, the client ends with a status other than 0.", "peers.md C1-14"),
        must("09", "An agent that never answers can be left by Ctrl-C.", "peers.md C1-10"),
        should("10", "The agent sees the environment of the client.", "peers.md P12"),
        should("11", "An agent that dies right after its answer has its answer taken.", "peers.md C1-14"),
        must("12", "An agent that is left by Ctrl-C is not left running.", "peers.md C1-8"),
    ],
)
