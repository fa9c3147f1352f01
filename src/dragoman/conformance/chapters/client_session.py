"""Sessions and prompts as a client has to ask for them."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must

PLACE = 3

CHAPTER = chapter(
    "client.session",
    "Sessions and prompts",
    [
        must("01", "The folder of a session is an absolute path.", "reference 1.5", "v1", "banjo", "crow", "draft"),
        must("02", "session/new has a list of MCP servers, if an empty one.", "reference 1.5", "v1"),
        must(
            "03", "A session id is used as it was given, whatever it looks like.", "peers.md 33", "v1", "banjo", "draft"
        ),
        must("04", "A session id of digits stays a string.", "peers.md 33", "v1", "banjo", "draft"),
        must("05", "Modes and options that are null are as good as none.", "reference 1.5", "v1", "banjo"),
        must("06", "A list of models beside the session id is borne.", "peers.md 20", "v1", "banjo"),
        must("07", "An option of an unknown type does not spoil the session.", "reference 1.11", "v1", "banjo"),
        must("08", "The ids of modes may be URLs.", "peers.md 33", "v1", "banjo"),
        must("09", "MCP servers behind HTTP are only told to agents that take them.", "reference 1.6", "v1"),
        must("10", "Additional folders are only told to agents that take them.", "reference 1.5", "v1"),
        must(
            "11", "A prompt is a list of blocks that each have a type.", "reference 1.7", "v1", "banjo", "crow", "draft"
        ),
        must("12", "Without capabilities a prompt has only texts and links in it.", "reference 1.7", "v1", "banjo"),
        must("13", "A session has one prompt at a time.", "peers.md 16"),
        must("14", "Every _meta of the client is an object.", "reference 1.14", "v1", "banjo", "draft"),
        must("15", "The prompt goes to the session that was opened.", "reference 1.5", "crow", "2025.1"),
    ],
)
