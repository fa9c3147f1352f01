"""JSON-RPC as a client has to speak it: ids, answers, errors, and what it must bear from agents."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 1

CHAPTER = chapter(
    "client.rpc",
    "JSON-RPC",
    [
        must("01", 'Every message of the client says "jsonrpc": "2.0".', "reference 1.1"),
        must("02", "The client writes nothing to its agent but one JSON object a line.", "reference 3.1"),
        must("03", "The ids of the client's own requests are integers or strings, each used once.", "reference 1.1"),
        must("04", "A request of an unknown method is refused with -32601, not left open.", "peers.md 7"),
        must("05", "A request of an unknown extension is refused with -32601, not granted.", "peers.md 6"),
        must("06", "An unknown notification is not answered, not even with an error without id.", "peers.md 1"),
        must("07", "An unknown extension notification is not answered.", "reference 1.14"),
        must("08", "A line of broken JSON does not end the conversation.", "peers.md 3"),
        must("09", "A line of broken JSON is passed over or answered with -32700 and id null.", "peers.md 3"),
        must("10", "A JSON value that is no object does not end the conversation.", "peers.md P6"),
        must("11", "An array of messages does not end the conversation.", "peers.md 4"),
        should("12", "An array of messages is passed over or refused as a whole with -32600.", "reference 5.17"),
        must("13", "An answer to a request that was never made is passed over.", "reference 1.1"),
        must("14", "An error without id does not end the turn that is under way.", "peers.md 1"),
        must("15", "An error with id null does not end the turn that is under way.", "peers.md 1"),
        must("16", "A request with a long string as id is answered with that string.", "peers.md 2"),
        must("17", "An agent's id that equals one of the client's own is kept apart from it.", "peers.md 2"),
        must("18", "The order of members does not matter: an id may come last.", "peers.md 2"),
        must("19", "A second answer to the same request is passed over.", "reference 1.1"),
        must("20", "A string of digits as id comes back as a string.", "reference 1.1"),
        must("21", "Zero is an id like any other.", "peers.md 2"),
        must("22", "Members nobody knows beside method and params are ignored.", "reference 5.13"),
        must("23", "The client's errors have an integer code and a text.", "reference 1.14"),
        must("24", "An answer has a result or an error, never both.", "reference 1.1"),
        must("25", "A request without params is answered, if only with an error.", "peers.md 11"),
        must("26", "Twenty requests at once are all answered.", "reference 1.1"),
        must("27", "An error of an unheard-of code ends the request it answers.", "peers.md 9"),
        should("28", "A request taken back by $/cancel_request is still answered.", "peers.md 8", "v1", "banjo"),
        must("29", "A $/cancel_request of the agent is not answered itself.", "peers.md 8", "v1", "banjo"),
        must("30", "A request with wrong types in its params is answered with an error.", "peers.md 11", "v1", "banjo"),
    ],
)
