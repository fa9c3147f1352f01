"""JSON-RPC as an agent has to speak it: ids, answers, errors, batches."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must

PLACE = 1

CHAPTER = chapter(
    "agent.rpc",
    "JSON-RPC",
    [
        must("01", "A request with a string id is answered with that very string as id.", "reference 1.1"),
        must(
            "02", "A notification is never answered, whether its method is known or not.", "reference 1.1, peers.md 1"
        ),
        must("03", "A request of an unknown method is refused with -32601.", "reference 1.14"),
    ],
)
