"""JSON-RPC as an agent has to speak it: ids, answers, errors, batches."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 1

CHAPTER = chapter(
    "agent.rpc",
    "JSON-RPC",
    [
        must("01", "A request with a string id is answered with that very string as id.", "reference 1.1"),
        must("02", "A notification is never answered, known or not.", "reference 1.1, peers.md 1"),
        must("03", "A request of an unknown method is refused with -32601.", "reference 1.14"),
        must("04", 'Every message says jsonrpc: "2.0".', "reference 1.1"),
        must("05", "An answer has a result or an error, never both and never neither.", "reference 1.1"),
        must("06", "An error has a whole number as code and a text as message.", "reference 1.14"),
        must("07", "A request is answered once.", "reference 1.1"),
        must("08", "The id 0 is an id like any other, and comes back.", "reference 1.1, peers.md 2"),
        must(
            "09",
            "A client's request may have the id of a request of the agent's.",
            "reference 1.1",
            "v1",
            "banjo",
            "draft",
        ),
        must("10", "A batch does not end the connection.", "reference 5.17, peers.md 4"),
        should("11", "A batch is refused as a whole: one -32600 with id null.", "reference 5.17, peers.md 4"),
        must("12", "A line that is no JSON does not end the connection.", "reference 3.1, peers.md 3"),
        should("13", "A line that is no JSON is answered with -32700 and id null.", "reference 3.1, peers.md 3"),
        must("14", "JSON that is no object does not end the connection.", "reference 3.1"),
        must("15", "Members that nobody knows are ignored.", "reference 1.14, seed 003 note 2"),
        must("16", "A request of an unknown extension method is refused with -32601.", "reference 1.14, peers.md 6"),
        must("17", "_meta is accepted on the params of a request.", "reference 1.14", "v1", "banjo", "draft"),
        must("18", "An answer to a request nobody made is ignored.", "reference 1.1"),
        must("19", "An error with id null does not end the connection.", "peers.md 1"),
        must("20", "A request that lacks its params is refused with -32602.", "reference 1.14, peers.md 11"),
        must("21", "Params that are a list are refused.", "reference 1.14"),
        must("22", "Many requests may be under way at once; each gets its answer.", "reference 1.1"),
        must("23", "The members of a message may stand in any order.", "peers.md 2"),
        must("24", "An id that was used before, and answered, may be used again.", "reference 1.1"),
        should("25", "The error of an unknown method names the method.", "peers.md 5"),
        must("26", "An id as large as 2^53 - 1 comes back as it is.", "reference 1.1"),
        should(
            "27", "Methods of the agent's own begin with an underscore.", "reference 1.14, peers.md 7", "v1", "banjo"
        ),
    ],
)
