"""Turns: prompts and what they may hold, stop reasons, what comes after a turn."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 5
OFFICIAL = ("v1", "banjo")
STOPPING = ("v1", "banjo", "crow", "draft")

CHAPTER = chapter(
    "agent.prompt",
    "Prompts and turns",
    [
        must("01", "A turn ends with an answer that has a stop reason.", "reference 1.7", *STOPPING),
        must("02", "The stop reason is one that the dialect knows.", "reference 1.7, 5.5", *STOPPING),
        must("03", "A link to a resource is always accepted.", "reference 1.3", *OFFICIAL),
        must(
            "04",
            "A picture is accepted where that is offered.",
            "reference 1.3",
            *OFFICIAL,
            needs="agent.promptCapabilities.image",
        ),
        must(
            "05",
            "A sound is accepted where that is offered.",
            "reference 1.3",
            *OFFICIAL,
            needs="agent.promptCapabilities.audio",
        ),
        must(
            "06",
            "A text inside the prompt is accepted where that is offered.",
            "reference 1.3",
            *OFFICIAL,
            needs="agent.promptCapabilities.embeddedContext",
        ),
        must(
            "07",
            "Bytes inside the prompt are accepted where embedded context is offered.",
            "reference 1.3",
            *OFFICIAL,
            needs="agent.promptCapabilities.embeddedContext",
        ),
        must("08", "An empty prompt is answered, one way or the other.", "reference 1.7"),
        must("09", "A prompt without content is refused with -32602.", "reference 1.7, peers.md 11"),
        must("10", "A block of an unknown type is answered, one way or the other.", "reference 1.14"),
        should("11", "The agent says something in a plain turn.", "reference 1.8"),
        must("12", "After a turn that failed the session takes another prompt.", "reference 1.7"),
        must("13", "A prompt sent while a turn runs is answered too, and so is the first.", "peers.md 16"),
        must("14", "A session takes one prompt after the other.", "reference 1.7"),
        must("15", "Numbers of tokens in the answer are whole numbers.", "reference 1.7", "v1"),
        must("16", "A turn that nobody cancelled does not end as cancelled.", "reference 1.7", *STOPPING),
        must("17", "A prompt whose session is no text is refused.", "reference 1.14"),
        must("18", "A prompt of a hundred blocks is answered.", "reference 1.7"),
        should("19", "A refusal is told as the stop reason refusal, not as an error.", "reference 1.7", *OFFICIAL),
        must("20", "Annotations and _meta on a block are accepted.", "reference 1.14", *OFFICIAL),
    ],
)
