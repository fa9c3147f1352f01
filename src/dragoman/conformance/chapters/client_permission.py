"""How a client answers when it is asked for leave, or for facts."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 7

CHAPTER = chapter(
    "client.permission",
    "Questions",
    [
        must("01", "A question for leave is answered with one of its options, or with cancelled.", "reference 1.10"),
        must("02", "The outcome is an object with its own outcome in it.", "reference 1.10"),
        must("03", "The id of the chosen option is said as it was given.", "peers.md 33"),
        must("04", "An option of an unknown kind is no error.", "peers.md C3-27"),
        must("05", "A question without options is never answered with a choice.", "reference 1.10"),
        must("06", "Two questions at once are both answered.", "reference 1.1"),
        must("07", "A question may say no more of its tool call than id and title.", "peers.md 18"),
        must("08", "Where leave can only be refused, nothing else is chosen.", "peers.md C6-42"),
        must(
            "09",
            "A form is answered with accept, decline or cancel.",
            "reference 1.13",
            needs="client.elicitation.form",
        ),
        must(
            "10",
            "An accepted form has a value for what it requires.",
            "reference 1.13",
            needs="client.elicitation.form",
        ),
        must(
            "11",
            "A question in a mode the client does not offer is an error.",
            "reference 1.13",
            needs="!client.elicitation.url",
        ),
        should("12", "The completion of a question nobody asked is passed over.", "reference 1.13"),
    ],
    dialects=("v1", "banjo"),
)
