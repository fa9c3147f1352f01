"""Updates that real agents send, and that a client has to bear: the conversation goes on after each of them."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 4

CHAPTER = chapter(
    "client.update",
    "Updates",
    [
        must("01", "An update of an unknown kind does not end the turn.", "peers.md 32"),
        should("02", "An update of an unknown kind is no failure: no stack trace is printed for it.", "peers.md P5"),
        must("03", "A tool call may have neither kind nor status.", "peers.md 18"),
        must("04", "News of a tool call nobody announced is borne.", "peers.md 18"),
        must("05", "A tool call may be complete from the start.", "peers.md 18"),
        must("06", "The id of a tool call may be announced twice.", "peers.md 18"),
        must("07", "A diff of a new file has null for its old text.", "peers.md 23"),
        must("08", "The line of a location may be null or 0.", "peers.md 23"),
        must("09", "A terminal the client never made may stand in a tool call.", "peers.md 26"),
        must("10", "A usage_update with null for a number is borne.", "peers.md C3-24"),
        must("11", "A session_info_update may have nothing but _meta.", "peers.md 37"),
        must("12", "A chunk may be empty but for its _meta.", "peers.md 35"),
        must("13", "_meta may stand anywhere and hold anything.", "peers.md 25"),
        # In banjo no plan has any, which client.dialect.04 is about.
        must("14", "A plan without priorities is borne.", "reference 5.14-16", "v1"),
        must("15", "A command's input may be null.", "peers.md 23"),
        must("16", "Mode and options may be told anew in every turn.", "peers.md 19"),
        must("17", "An echo of the user's own prompt is borne.", "peers.md 17"),
        must("18", "A block of an unknown type is borne.", "reference 1.14"),
        must("19", "A tool call's kind and status may be words nobody knows.", "peers.md C3-27"),
        must("20", "Pictures and sounds may stand in an answer.", "reference 1.8"),
        must("21", "A tool call's input may be empty first, null, and filled later.", "peers.md 18"),
        must("22", "An update of a session the client does not know is borne.", "peers.md 14"),
        must("23", "A session/update without an update is borne.", "reference 1.8"),
        must("24", "An update that cannot be read is not answered: it is a notification.", "peers.md 1"),
        must("25", "A block that stands bare among a tool call's content is borne.", "reference 1.9"),
        must("26", "Members nobody knows in an update are ignored.", "peers.md 21"),
        must("27", "A tool call's name, thoughts and message ids are borne.", "reference 1.8"),
    ],
    dialects=("v1", "banjo"),
)
