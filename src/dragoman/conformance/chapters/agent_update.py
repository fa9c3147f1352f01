"""Updates: what each kind must hold, and which a client must have asked for."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 7
OFFICIAL = ("v1", "banjo")

CHAPTER = chapter(
    "agent.update",
    "Updates",
    [
        must("01", "An update names a session that was opened.", "reference 1.8", "v1", "banjo", "crow", "draft"),
        must("02", "An update is an object that says its kind.", "reference 1.8", *OFFICIAL),
        must("03", "The kind of an update is known, or begins with an underscore.", "reference 1.8", "v1"),
        must("04", "A piece of a message holds a content block.", "reference 1.8", *OFFICIAL),
        must("05", "A piece of a thought holds a content block.", "reference 1.8", *OFFICIAL),
        must("06", "The id of a message is a text, where there is one.", "reference 1.8", "v1"),
        must("07", "Every entry of a plan has content, priority and status.", "reference 1.11", "v1"),
        must("08", "Every command has a name and a description.", "reference 1.8", *OFFICIAL),
        should("09", "The name of a command is a word, without the slash.", "reference 1.11", *OFFICIAL),
        must("10", "A change of mode names a mode that is available.", "reference 1.8, 1.11", *OFFICIAL),
        must("11", "A change of options tells all options.", "reference 1.8", "v1"),
        must("12", "What is told of the context is counted in whole numbers.", "reference 1.8, peers.md C3 24", "v1"),
        must("13", "A title is a text, or null to take it away.", "reference 1.8", "v1"),
        must("14", "Notices go to clients that announced them only.", "reference 1.8", "v1"),
        must("15", "Compactions go to clients that announced them only.", "reference 1.8", "v1"),
        must("16", "A picture has bytes in base64 and a media type.", "reference 5.10", *OFFICIAL),
        must("17", "A sound has bytes in base64 and a media type.", "reference 5.10", *OFFICIAL),
        must("18", "An embedded resource has a URI, and either text or bytes.", "reference 5.10", *OFFICIAL),
        must("19", "A link to a resource has a URI and a name.", "reference 5.10", *OFFICIAL),
        must("20", "An update is a notification: it has no id.", "reference 1.8"),
        must("21", "_meta is an object wherever it stands.", "reference 5.13"),
        must("22", "A notice has a severity and a title with something in it.", "reference 1.8", "v1"),
        must("23", "A compaction has an id and a status.", "reference 1.8", "v1"),
        should("24", "Pieces of a message are not empty.", "peers.md 35"),
    ],
)
