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
        must("27", "A new session begins in the mode it was asked for.", "seed 004 5.1.3"),
        must("28", "A new session begins with the options it was given.", "seed 004 5.1.3"),
        must(
            "29",
            "Loading a session that is not there has the number for that.",
            "seed 004 5.1.4, 15.1",
            needs="agent.loadSession",
        ),
        must("30", "Files attached to a prompt are taken where that is offered.", "seed 004 5.1.5"),
        must("31", "A cancel may say why.", "seed 004 6.2"),
        must("32", "A change of an option has its key and what it holds now.", "seed 004 7.9"),
        must("33", "A change of mode has the mode now, and the one before as text.", "seed 004 7.8"),
        must("34", "The output of a tool is text, a diff in hunks or a terminal's.", "seed 004 8.4"),
        must("35", "The place of a tool call has a path, and numbers as lines.", "seed 004 8.5"),
        should("36", "All blocks of content are taken, with bytes or with a url.", "seed 004 9"),
        must("37", "What the agent can do is told in the draft's tree.", "seed 004 10.1"),
        must("38", "A tool call that failed says why.", "seed 004 16.2"),
        may("39", "What a client must be able to do may be told, as a tree.", "seed 004 10.3"),
    ],
    dialects=("draft",),
)
