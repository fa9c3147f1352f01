"""What only the draft asks of an agent (seed 004)."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, may, must, should

PLACE = 15

CHAPTER = chapter(
    "agent.draft",
    "The draft",
    [
        must("01", "The introduction has version, agentInfo and capabilities.", "seed 004 5.1.1"),
        must("02", "A new session tells when it was made.", "seed 004 5.1.3"),
        must("03", "An update has a session, a type and data.", "seed 004 6.1"),
        must("04", "The time of an update is ISO 8601, where it is told.", "seed 004 6.1"),
        must("05", "A piece of a message has text as content; its index is a number.", "seed 004 7.1"),
        must("06", "A tool call has an id, a tool and a known status.", "seed 004 7.4"),
        must("07", "The status of a tool call moves as the machine of 8.2 allows.", "seed 004 8.2"),
        must("08", "A tool call that was refused is told as denied.", "seed 004 8.2"),
        must("09", "Open tool calls of a cancelled turn are told as cancelled.", "seed 004 4.5"),
        must("10", "A question has a session, a known operation and a resource.", "seed 004 5.2.1"),
        must("11", "set_mode tells the mode before and after.", "seed 004 5.1.6"),
        must("12", "Every change of mode is told.", "seed 004 12.3"),
        must("13", "set_config_option tells the key and the value it has now.", "seed 004 5.1.7"),
        must("14", "authenticate says whether it succeeded.", "seed 004 5.1.2"),
        must("15", "Tokens are told as numbers of input and output.", "seed 004 5.1.5"),
        must(
            "16",
            "Loading a session tells folder, mode, options and number of messages.",
            "seed 004 5.1.4",
            needs="agent.loadSession",
        ),
        must("17", "Output of a terminal that is pushed is acknowledged.", "seed 004 5.2.5"),
        should("18", "The error of an unknown session suggests what to do.", "seed 004 15.2"),
        must("19", "Files are asked for by path, without a session.", "seed 004 5.2.2"),
        must("20", "A plan has steps with id, description and status.", "seed 004 7.6"),
        must("21", "A thought has text as content.", "seed 004 7.3"),
        should("22", "A question says why.", "seed 004 14.2"),
        must("23", "Commands are told with name and description.", "seed 004 7.7"),
        must("24", "The environment of a terminal is a table of texts, its timeout a number.", "seed 004 5.2.4"),
        must("25", "Leave is awaited in the status awaiting_permission.", "seed 004 8.3"),
        may("26", "One process may serve several sessions, and they are at work at once.", "seed 004 3.4"),
    ],
    dialects=("draft",),
)
