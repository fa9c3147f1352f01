"""What only the draft asks of a client (seed 004)."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, may, must, should

PLACE = 13
READ, WRITE, TERMINALS = "client.fs.readTextFile", "client.fs.writeTextFile", "client.terminal"

CHAPTER = chapter(
    "client.draft",
    "The draft",
    [
        must("01", "initialize tells who the client is and what it offers.", "reference 6.4 004-15"),
        must("02", "The capabilities for files and terminals are the draft's.", "reference 6.4 004-40"),
        must("03", "A question for leave is answered with granted, true or false.", "reference 6.4 004-22"),
        must("04", "A scope is one of four.", "reference 6.4 004-22"),
        must("05", "A text is given with its encoding.", "reference 6.4 004-23", needs=READ),
        must("06", "A range of lines has both its ends in it.", "reference 6.4 004-23", needs=READ),
        must("07", "A relative path is meant from the working directory.", "reference 6.4 004-55", needs=READ),
        must(
            "08",
            "A write tells how many bytes it wrote, and whether it made the file.",
            "reference 6.4 004-24",
            needs=WRITE,
        ),
        must("09", "A file that must not be overwritten is not.", "reference 6.4 004-24", needs=WRITE),
        must("10", "The environment of a command is a map.", "reference 6.4 004-25", needs=TERMINALS),
        must("11", "What a command prints is pushed to the agent.", "reference 6.4 004-26", needs=TERMINALS),
        must(
            "12", "The end of a command has an exit code, also after a signal.", "reference 6.4 004-27", needs=TERMINALS
        ),
        must("13", "Waiting for a command ends with its timeout.", "reference 6.4 004-27", needs=TERMINALS),
        must("14", "kill and release tell whether they did it.", "reference 6.4 004-28", needs=TERMINALS),
        should("15", "An agent that requires what the client lacks is left.", "reference 6.4 004-42"),
        must("16", "The draft's seven statuses of a tool call are borne.", "reference 6.4 004-34"),
        must("17", "The draft's outputs of a tool call are borne.", "reference 6.4 004-36"),
        must("18", "Changes of mode and options in the draft's words are borne.", "reference 6.4 004-32"),
        must("19", "An update may have a timestamp.", "reference 6.4 004-30"),
        must("20", "Folders are made for a file where that is asked for.", "reference 6.4 004-24", needs=WRITE),
        must("21", "A command ends with the timeout it was given.", "reference 6.4 004-25", needs=TERMINALS),
        must("22", "kill with force ends what pays no attention to TERM.", "reference 6.4 004-28", needs=TERMINALS),
        may("23", "No more terminals are made than were announced.", "reference 6.4 004-40", needs=TERMINALS),
        must("24", "What an agent can do of its own, under _custom, is no hindrance.", "reference 6.4 004-51"),
        should("25", "A client that asks too often does not ask again at once.", "reference 6.4 004-60"),
        may("26", "Bytes are read and written as base64.", "reference 6.4 004-75, 5.17"),
        may("27", "A folder is listed with the names and types in it.", "reference 6.4 004-75, 5.17"),
        may("28", "A folder is made, and is there.", "reference 6.4 004-75, 5.17"),
        may("29", "What changes in a folder that is watched is told.", "reference 6.4 004-75, 5.17"),
        may("30", "Of several files all are written, or none.", "reference 6.4 004-75, 5.17"),
        may("31", "A text may say how many lines it has, and whether it was cut.", "reference 6.4 004-23", needs=READ),
        may("32", "Pushed output may say its stream, stdout or stderr.", "reference 6.4 004-26", needs=TERMINALS),
        may("33", "MCP servers may be told with a session, each with a name and a transport.", "reference 6.4 004-43"),
    ],
    dialects=("draft",),
)
