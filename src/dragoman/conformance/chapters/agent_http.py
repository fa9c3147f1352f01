"""Streamable HTTP, as a server has to speak it."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, may, must, should

PLACE = 30
RFD = "reference 3.2"

CHAPTER = chapter(
    "agent.http",
    "Streamable HTTP",
    [
        must("01", "initialize is answered with 200 and the JSON-RPC answer as application/json.", RFD),
        must("02", "The answer to initialize names the connection in Acp-Connection-Id.", RFD),
        must("03", "Two connections have two ids.", RFD),
        must("04", "Any other message is taken with 202.", RFD),
        must("05", "A 202 has no body.", RFD),
        must("06", "A stream is text/event-stream, with 200.", RFD),
        must("07", "Every event is one JSON-RPC message.", RFD),
        must("08", "The answer to session/new comes on the stream of the connection.", RFD),
        must("09", "Updates come on the stream of their session.", RFD),
        must("10", "The answer to a prompt comes on the stream of its session, after the updates.", RFD),
        must("11", "A question for leave comes on the stream of its session, and its answer is taken with 202.", RFD),
        must("12", "A POST that is not application/json is refused with 415.", RFD),
        should("13", "A POST whose body is no JSON is refused with 400.", "reference 3.3"),
        must("14", "A POST without Acp-Connection-Id that is no initialize is refused with 400.", RFD),
        must("15", "A POST on a connection that is not there is refused with 404.", RFD),
        must("16", "A GET that does not accept text/event-stream is refused with 406.", RFD),
        must("17", "A GET without Acp-Connection-Id is refused with 400.", RFD),
        must("18", "A GET on a connection that is not there is refused with 404.", RFD),
        must("19", "A batch is refused with 501.", RFD),
        must("20", "A session's message that names no session at all is refused with 400.", RFD),
        may("21", "A session's message without the header Acp-Session-Id may be refused, with 400.", f"{RFD}, 3.4"),
        must("22", "A message for a session that this connection has not is refused with 404.", RFD),
        should("23", "A header that names another session than the message is refused with 400.", "reference 3.4"),
        must("24", "DELETE is answered with 202.", RFD),
        must("25", "A connection that was deleted is not there any more.", RFD),
        must("26", "The streams of a connection that was deleted end.", RFD),
        must("27", "DELETE without Acp-Connection-Id is refused with 400, of an unknown one with 404.", RFD),
        must(
            "28",
            "A session is loaded again over another connection: stream first, then session/load with both headers.",
            RFD,
            "v1",
            "banjo",
            "crow",
            needs="agent.loadSession",
        ),
        must(
            "29",
            "The answer to session/load comes on the stream of the connection.",
            RFD,
            "v1",
            "banjo",
            "crow",
            needs="agent.loadSession",
        ),
        must("30", "A thousand updates come without a gap and in order.", "peers.md C2, 13"),
        should("31", "What is said before its stream is read waits for the reader.", "reference 3.3"),
        should(
            "32", "A second GET on a stream is refused, or takes it over: the two do not share it.", "reference 3.4"
        ),
        may("33", "Where events have ids, no two of one stream have the same.", RFD),
        may("34", "Where events have ids, a stream that was cut goes on after Last-Event-ID.", RFD),
        may("35", "A cookie that the server sets has a name and a value.", RFD),
        should("36", "A web page of another place is refused by its Origin.", "peers.md P7, reference 3.2"),
        should("37", "A request under a name that is not the server's is refused by its Host.", "peers.md P7"),
        should("38", "A body without end is refused with 413.", "peers.md P7, reference 3.4"),
        may("39", "A 413 says how much is allowed.", "reference 3.4"),
        must("40", "A malformed client does not disturb another.", "peers.md C7"),
        must("41", "The address speaks HTTP/2.", RFD),
        may("42", "A second initialize on a connection may be refused, with 400.", "reference 3.3, 3.4"),
        should("43", "A refusal has a body that says why.", "reference 3.3, 3.4"),
        should("44", "Other methods than POST, GET and DELETE are refused with 405.", "reference 3.3"),
        should("45", "Where a token is asked for, a request without it is refused with 401.", RFD),
    ],
    way="http",
)
