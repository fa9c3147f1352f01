"""Sessions: opening, ids, modes and options, load and resume, list, close, delete, fork."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, may, must, should

PLACE = 4
OFFICIAL = ("v1", "banjo")
MINTING = ("v1", "banjo", "crow", "draft")
CAN = "agent.sessionCapabilities."

CHAPTER = chapter(
    "agent.session",
    "Sessions",
    [
        must("01", "session/new gives the id of the session, a text with something in it.", "reference 1.5", *MINTING),
        must("02", "Two sessions have two ids.", "reference 1.5", *MINTING),
        must(
            "03",
            "A working directory that is no absolute path is refused.",
            "reference 1.5, seed 003 session/new",
            *OFFICIAL,
        ),
        must("04", "A session without a working directory is refused with -32602.", "reference 1.5", *MINTING),
        should("05", "MCP servers that are no list are refused.", "reference 1.5", "v1"),
        must("06", "A prompt in a session that is not there is refused.", "reference 1.5, peers.md 10"),
        should("07", "The refusal has the number that means an unknown session.", "reference 5.12, peers.md 10"),
        must("08", "The current mode is one of those available.", "reference 1.11", *OFFICIAL),
        must("09", "An available mode can be chosen.", "reference 1.11", *OFFICIAL),
        must("10", "A mode that is not available is refused.", "reference 1.11", *OFFICIAL),
        must("11", "Every option has an id, a name, a type and a value.", "reference 1.11", *OFFICIAL),
        must("12", "The value of a choice is one of its values.", "reference 1.11", *OFFICIAL),
        must("13", "Setting an option is answered with all options and their values.", "reference 1.11", *OFFICIAL),
        must("14", "An option that is not there cannot be set.", "reference 1.11", *OFFICIAL),
        must("15", "Only clients that announced it are shown switches among the options.", "reference 1.3", "v1"),
        must(
            "16",
            "Loading a session tells what the user said.",
            "reference 1.5, peers.md 36",
            "v1",
            "banjo",
            "crow",
            needs="agent.loadSession",
        ),
        must(
            "17",
            "Loading a session tells what the agent said.",
            "reference 1.5",
            "v1",
            "banjo",
            "crow",
            needs="agent.loadSession",
        ),
        must(
            "18",
            "The whole history is told before the answer to the load.",
            "reference 1.5",
            "v1",
            "banjo",
            "crow",
            needs="agent.loadSession",
        ),
        must("19", "Loading a session that is not there is refused.", "peers.md C3 29", needs="agent.loadSession"),
        must(
            "20",
            "Resuming a session does not tell its history again.",
            "reference 1.5, peers.md 36",
            *OFFICIAL,
            needs=CAN + "resume",
        ),
        must(
            "21", "Resuming a session that is not there is refused.", "reference 1.5", *OFFICIAL, needs=CAN + "resume"
        ),
        must("22", "A list of sessions has the id and folder of each.", "reference 1.5", "v1", needs=CAN + "list"),
        should("23", "A session that was used is in the list.", "reference 1.5", "v1", needs=CAN + "list"),
        must(
            "24",
            "A list for one folder has sessions of that folder only.",
            "reference 1.5, peers.md 34",
            "v1",
            needs=CAN + "list",
        ),
        must("25", "A closed session takes no prompt.", "reference 1.5", "v1", needs=CAN + "close"),
        must(
            "26", "Closing a session in a turn ends the turn as cancelled.", "reference 1.5", "v1", needs=CAN + "close"
        ),
        must("27", "A deleted session is gone from the list.", "reference 1.5", "v1", needs=CAN + "delete"),
        should("28", "Deleting a session that is not there succeeds.", "reference 1.5", "v1", needs=CAN + "delete"),
        must("29", "A fork has an id of its own.", "reference 1.5", "v1", needs=CAN + "fork"),
        must(
            "30",
            "Further directories that are no absolute paths are refused.",
            "reference 1.5",
            "v1",
            needs=CAN + "additionalDirectories",
        ),
        must("31", "Updates of two sessions at work name the session they belong to.", "reference 1.8"),
        must(
            "32",
            "Two sessions can be at work at once.",
            "reference 5.4",
            "v1",
            "banjo",
            "2025.1",
            "crow",
        ),
        should(
            "33",
            "A load that was refused leaves other sessions as they are.",
            "reference 1.5",
            needs="agent.loadSession",
        ),
        must("34", "The list ends: no cursor leads back to itself.", "reference 1.5", "v1", needs=CAN + "list"),
        may(
            "35",
            "Closing a session that is not there may be refused, as one that is not known.",
            "reference 1.5",
            "v1",
            needs=CAN + "close",
        ),
        must(
            "36",
            "An MCP server that is a command may be given with a session.",
            "reference 1.3, 1.6",
            "v1",
            "banjo",
            "crow",
            "draft",
        ),
        must(
            "37",
            "What is secret about an MCP server is not told to the user.",
            "reference 6.4 004-56",
            "v1",
            "banjo",
            "crow",
            "draft",
        ),
        should("38", "A value that a choice has not cannot be set.", "reference 1.11", "v1", "banjo"),
        must("39", "A switch can be set, and is told as it is now.", "reference 1.11", "v1"),
    ],
)
