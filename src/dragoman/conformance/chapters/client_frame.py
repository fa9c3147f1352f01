"""Bytes as they come from real agents: split, merged, huge, slow, noisy."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 10

CHAPTER = chapter(
    "client.frame",
    "Lines and bytes",
    [
        must("01", "A message may arrive in pieces.", "reference 3.1"),
        must("02", "Several messages may arrive at once.", "reference 3.1"),
        must("03", "A line may be longer than 64 KiB.", "peers.md C4-30"),
        must("04", "A letter may be split between two pieces.", "reference 3.1"),
        must("05", "Log lines between the messages are passed over.", "peers.md C5-36"),
        must("06", "A line may end with CR and LF.", "peers.md C5-37"),
        must("07", "Blank lines are passed over.", "reference 3.1"),
        must("08", "A line that is not UTF-8 does not end the conversation.", "reference 3.1"),
        should("09", "A message nested a thousand deep does not end the conversation.", "reference 1.14"),
        should("10", "A line of five megabytes is read.", "peers.md P11"),
    ],
)
