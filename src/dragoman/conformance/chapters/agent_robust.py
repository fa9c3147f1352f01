"""Hostility: floods, games with ids, answers that come twice, texts that nobody expects."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must

PLACE = 13

CHAPTER = chapter(
    "agent.robust",
    "Hostility",
    [
        must("01", "A flood of notifications does not end the connection.", "peers.md C4"),
        must("02", "A question answered twice does not end the connection.", "peers.md 8", "v1", "banjo", "draft"),
        must("03", "A method name of a hundred thousand characters is refused like another.", "reference 1.14"),
        must("04", "Control characters in a prompt do not keep it from being answered.", "reference 1.7"),
        must("05", "A prompt in the session whose id is empty is refused.", "reference 1.5"),
        must("06", "A flood of cancels does not end the connection.", "reference 1.7"),
        must("08", "A member that stands twice in a message does not end the connection.", "reference 3.1"),
        must("09", "Numbers too large for any type do not end the connection.", "reference 3.1"),
        must("10", "Notifications whose params make no sense are passed over.", "reference 1.14"),
        must("11", "Sessions can be opened by the dozen.", "reference 5.4"),
        must("12", "A request whose method is no text does not end the connection.", "reference 1.14"),
    ],
)
