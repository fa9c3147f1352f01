"""What a client lends: files, terminals and forms, asked for only where they are lent."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, may, must, should

PLACE = 11
OFFICIAL = ("v1", "banjo")

CHAPTER = chapter(
    "agent.files",
    "Files, terminals and forms",
    [
        must("01", "Files are not asked for where the client lends none.", "reference 1.12"),
        must("02", "Terminals are not asked for where the client lends none.", "reference 1.12"),
        must("03", "Writing is not asked for where only reading is lent.", "reference 1.12", "v1", "banjo", "draft"),
        must("04", "A request for a file has a session and an absolute path.", "reference 1.12", *OFFICIAL),
        must("05", "Lines are counted from 1.", "reference 1.12", *OFFICIAL),
        must("06", "A request to write has the text to write.", "reference 1.12", *OFFICIAL),
        must("07", "A file that cannot be had does not break the turn.", "reference 1.12, peers.md 28"),
        must(
            "08",
            "A request for a terminal has a command; args, env and cwd are well formed.",
            "reference 1.12, peers.md 27",
            *OFFICIAL,
        ),
        must("09", "A terminal is released when its work is done.", "reference 1.12", "v1", "banjo", "2025.1", "draft"),
        must("10", "A terminal is not used after it was released.", "reference 1.12", "v1", "banjo", "2025.1", "draft"),
        must(
            "11",
            "Only terminals that the client made are asked about.",
            "reference 1.12",
            "v1",
            "banjo",
            "2025.1",
            "draft",
        ),
        should(
            "12", "A terminal is released also when the turn is cancelled.", "reference 1.12", "v1", "banjo", "draft"
        ),
        must("13", "A terminal that cannot be had does not break the turn.", "reference 1.12"),
        must("14", "null for an empty result is accepted.", "reference 1.1, peers.md 29", "v1", "banjo", "2025.1"),
        must("15", "Forms are not shown to clients that announced none.", "reference 1.13", "v1"),
        must("16", "A form has a message, a mode and a schema of its fields.", "reference 1.13", "v1"),
        must("17", "A link has a message, an id and a URL.", "reference 1.13", "v1"),
        must("18", "A form that is declined does not break the turn.", "reference 1.13", "v1"),
        must("19", "A link is not shown to clients that announced forms only.", "reference 1.13", "v1"),
        must("20", "A form is about a session or a request, not both.", "reference 1.13", "v1"),
        must("21", "A read that is answered with nonsense does not break the turn.", "reference 1.14", *OFFICIAL),
        must(
            "22",
            "What a client does not name it does not lend.",
            "reference 1.3, 6.3 003-02",
            "v1",
            "banjo",
            "2025.1",
            "draft",
        ),
        may(
            "23",
            "A link in a prompt may be read through the client, by the path that it names.",
            "reference 6.3 003-19",
            *OFFICIAL,
        ),
        may("24", "The end of a link may be told, and names a link that was shown.", "reference 1.13", "v1"),
    ],
)
