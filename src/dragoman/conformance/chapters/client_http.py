"""Streamable HTTP, as a client has to speak it."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 30
RFD = "reference 3.2"
EVENTS = "reference 3.2, the standard of server-sent events"

CHAPTER = chapter(
    "client.http",
    "Streamable HTTP",
    [
        must("01", "The first request is a POST of initialize, without Acp-Connection-Id.", RFD),
        must("02", "Every later request names the connection.", RFD),
        must("03", "A POST is application/json.", RFD),
        must("04", "A GET accepts text/event-stream.", RFD),
        should("05", "The stream of the connection is asked for before session/new.", RFD),
        must("06", "The stream of a session is asked for with both headers.", RFD),
        must("07", "A prompt names its session in Acp-Session-Id.", RFD),
        must("08", "An answer to a session's request names the session in Acp-Session-Id.", f"{RFD}, 3.4"),
        must("09", "Cookies are returned for the life of the connection.", RFD),
        should("10", "The connection is ended with DELETE.", RFD),
        must("11", "Events that are cut anywhere are read.", EVENTS),
        must("12", "Data on several lines is one message.", EVENTS),
        must("13", "Comments are no messages, between events and within.", f"{EVENTS}, reference 3.3"),
        must("14", "Fields that are not known, and names of events, are passed over.", EVENTS),
        must("15", "Lines may end with CR and LF.", EVENTS),
        must("16", "Nothing is lost when the stream of a session opens late.", RFD),
        must("17", "A POST has one message.", RFD),
        must("18", "A thousand updates are shown without a gap and in order.", "peers.md C2, 13"),
        must("19", "An empty 202 is no failure, whatever its type.", "reference 3.3"),
    ],
    way="http",
)
