"""Files that a client lends its agent."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 8
READ, WRITE = "client.fs.readTextFile", "client.fs.writeTextFile"
ALL = ("v1", "banjo", "2025.1", "draft")

CHAPTER = chapter(
    "client.files",
    "Files",
    [
        must("01", "A file is given as it is on the disk.", "reference 1.12", *ALL, needs=READ),
        must("02", "Lines are counted from 1.", "reference 1.12", needs=READ),
        must("03", "No more lines are given than were asked for.", "reference 1.12", needs=READ),
        must("04", "A limit may stand without a first line.", "peers.md 28", needs=READ),
        should("05", "A file that is not there is an error, not an empty one.", "peers.md 28", needs=READ),
        must("06", "A relative path is refused.", "reference 1.1", "v1", "banjo", "2025.1", needs=READ),
        must("07", "What is written is in the file when the answer comes.", "peers.md 29", *ALL, needs=WRITE),
        must("08", "A file that is not there is made.", "reference 1.12", *ALL, needs=WRITE),
        must("09", "The answer to a write is an object, or null.", "reference 1.1", needs=WRITE),
        should("10", "A file outside the session's folder is not given.", "reference 1.5", *ALL, needs=READ),
        should(
            "11", "A link inside the folder that leads out of it is not followed.", "reference 1.5", *ALL, needs=READ
        ),
        should("12", "A file outside the session's folder is not written.", "reference 1.5", *ALL, needs=WRITE),
        must("13", "Line ends and letters of every script are kept.", "reference 1.12", *ALL, needs=WRITE),
        must("14", "A folder is not a file: reading one is an error.", "reference 1.12", *ALL, needs=READ),
        must("15", "A megabyte is written and given whole.", "peers.md C4-30", *ALL, needs=WRITE),
        must("16", "Without the capability files are not given.", "reference 1.2", needs=f"!{READ}"),
        must("17", "An empty file is given as an empty text.", "reference 1.12", *ALL, needs=READ),
        should("18", "The way up and down again does not lead out of the folder.", "reference 1.5", *ALL, needs=READ),
        must("19", "Without the capability files are not written.", "reference 1.2", needs=f"!{WRITE}"),
        should("20", "A line below zero is refused.", "reference 1.1, 6.1 001-09", needs=READ),
    ],
    dialects=("v1", "banjo"),
)
