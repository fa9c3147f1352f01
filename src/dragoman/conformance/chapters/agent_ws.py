"""WebSocket, as a server has to speak it."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 31
RFD = "reference 3.2"

CHAPTER = chapter(
    "agent.ws",
    "WebSocket",
    [
        must("01", "The upgrade is answered with 101 and Acp-Connection-Id.", RFD),
        must("02", "Two sockets have two connection ids.", RFD),
        must("03", "Every message is one text frame.", RFD),
        must("04", "A binary frame is ignored.", RFD),
        should("05", "Nothing is served before initialize.", f"{RFD}, 3.4"),
        must("06", "A text frame that is no JSON does not end the connection.", "reference 3.3"),
        must("07", "A message in several fragments is one message.", "RFC 6455 section 5.4"),
        must("08", "A ping is answered.", "RFC 6455 section 5.5.2"),
        must("09", "A thousand updates come without a gap and in order.", "peers.md C2, 13"),
        must("10", "A socket that is gone frees its connection.", RFD),
        must(
            "11",
            "A session is loaded again over another socket.",
            RFD,
            "v1",
            "banjo",
            "crow",
            needs="agent.loadSession",
        ),
        should("12", "A goodbye is answered with one.", "RFC 6455 section 7.1.1"),
        should("13", "A frame without end is refused at once.", "peers.md P7, reference 3.4"),
        must("14", "A malformed client does not disturb another.", "peers.md C7"),
        should("15", "A web page of another place is refused by its Origin.", "peers.md P7, reference 3.2"),
        should("16", "An upgrade under a name that is not the server's is refused by its Host.", "peers.md P7"),
        should("17", "Where a token is asked for, an upgrade without it is refused with 401.", RFD),
    ],
    way="ws",
)
