"""Lines and bytes: what an agent writes, and what it must be able to read."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must

PLACE = 2

CHAPTER = chapter(
    "agent.frame",
    "Lines and bytes",
    [
        must("01", "Every line on standard output is a message, and nothing else is.", "reference 3.1, peers.md C5"),
        must("02", "A message that arrives in pieces is read as one.", "reference 3.1"),
        must("03", "Several messages that arrive at once are all read.", "reference 3.1"),
        must("04", "A line may end with CR LF.", "reference 3.1"),
        must("05", "Empty lines are passed over.", "reference 3.1"),
        must("06", "A message of a megabyte is read and answered.", "peers.md C4 30"),
        must("07", "A message nested thousands deep does not end the connection.", "reference 3.1"),
        must("08", "Bytes that are no UTF-8 do not end the connection.", "reference 3.1"),
        must("09", "Half an emoji, escaped, does not end a turn's chance of an answer.", "reference 1.14"),
        must("10", "What is written is UTF-8, also after a prompt with emoji.", "reference 3.1"),
        must("11", "The agent goes when its input ends.", "reference 3.1, peers.md 12"),
        must("12", "The agent goes when its input ends in the middle of a turn.", "peers.md C1 5"),
        must("13", "Nothing is said before the client spoke.", "reference 1.3"),
        must("14", "A client that reads nothing for a while misses nothing of the end.", "peers.md C2 21"),
        must("15", "A message that trickles in byte by byte is read.", "reference 3.1"),
    ],
)
