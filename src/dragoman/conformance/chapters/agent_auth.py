"""Logins: what is offered, and what refusing without one looks like."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, may, must, should

PLACE = 12

CHAPTER = chapter(
    "agent.auth",
    "Logins",
    [
        must("01", "Where logins are offered, another one is refused.", "reference 1.4", "v1"),
        must(
            "02",
            "A session refused for want of a login has the number for that.",
            "reference 1.4, 5.12",
            "v1",
            "banjo",
            "draft",
        ),
        must("03", "Logins in a terminal are offered to clients that announced them only.", "reference 1.4", "v1"),
        must("04", "Logging out is there where it is offered.", "reference 1.4", "v1", needs="agent.auth.logout"),
        must("05", "Where logins are offered, authenticate without a method is refused.", "reference 1.4", "v1"),
        must("06", "No two logins have the same id.", "reference 1.4", "v1", "banjo"),
        should(
            "07", "Logins are offered as a list, an empty one where none is needed.", "reference 1.3, peers.md 24", "v1"
        ),
        may(
            "08",
            "Logins in a terminal may be offered to clients that announced them, with args as a list and env as a map.",
            "reference 1.3, 1.4",
            "v1",
        ),
    ],
)
