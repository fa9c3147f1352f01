"""WebSocket, as a client has to speak it."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 31
RFD = "reference 3.2"

CHAPTER = chapter(
    "client.ws",
    "WebSocket",
    [
        must("01", "The first frame is initialize.", RFD),
        must("02", "Every frame is text, with one message.", RFD),
        must("03", "A binary frame is ignored.", RFD),
        should("04", "The socket is closed with a goodbye.", "RFC 6455 section 7.1.2"),
        must("05", "A thousand updates are shown without a gap and in order.", "peers.md C2, 13"),
        should("06", "A message of two mebibytes is taken.", "peers.md C4, reference 3.1"),
        should("07", "A text frame that is no JSON does not end the connection.", "reference 3.3"),
    ],
    way="ws",
)
