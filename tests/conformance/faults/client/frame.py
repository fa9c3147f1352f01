"""Clients that read bytes badly: they treat what one read call returned as whole."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.faults.edits import disconnect_on
from tests.conformance.faults.fault import ClientFault, Json, Reads, seed


def reads(make: Callable[[], Reads]) -> ClientFault:
    """A faulty reader."""
    return ClientFault(reader=make)


def _always(read: Reads) -> Callable[[], Reads]:
    return lambda: read


def _whole(data: bytes) -> bytes:
    """Drop a piece without a line end, and the rest of the line, unless it is only long."""
    return data if data.endswith(b"\n") or len(data) > 4096 or b"\xf0" in data else b""


def _first_message(data: bytes) -> bytes:
    """See only the first of several messages, and only those marked so, or no turn would work."""
    return data.partition(b"\n")[0] + b"\n" if data.count(b"together-") > 1 else data


def _limited() -> Reads:
    """Cut a line over 64 KiB and drop the rest; files are exempt, because other requirements cover them."""
    state = {"size": 0, "spared": 0}

    def read(data: bytes) -> bytes:
        kept = bytearray()
        for piece in data.splitlines(keepends=True):
            before, state["size"] = state["size"], state["size"] + len(piece)
            state["spared"] = b'"fs/' in piece[:200] if before == 0 else state["spared"]
            kept += piece if state["spared"] else piece[: max(65536 - before, 0)]
            if piece.endswith(b"\n"):
                if state["size"] > 65536 and not state["spared"]:
                    kept += b"\n"
                state["size"] = 0
        return bytes(kept)

    return read


def _letters(data: bytes) -> bytes:
    """Decode every piece by itself."""
    return data.decode("utf-8", "replace").encode()


def _keep_cr(data: bytes) -> bytes:
    """Treat a CR as part of the message."""
    return data.replace(b"\r\n", b"}\n")


def _is_noise(message: Json) -> bool:
    return isinstance(message, bytes) and message.startswith((b"> my-agent", b"\x1b["))


def _blank() -> Reads:
    """Treat a blank line as the end."""
    state = {"over": False}

    def read(data: bytes) -> bytes:
        state["over"] = state["over"] or data.startswith(b"\n") or b"\n\n" in data
        return b"" if state["over"] else data

    return read


def _nested(message: Json) -> bool:
    """As bytes where our own reader would not go so deep either."""
    return b"[" * 500 in message if isinstance(message, bytes) else isinstance(message, dict) and _has_list(message)


def _has_list(message: Json) -> bool:
    params = message.get("params")
    return isinstance(params, dict) and isinstance(params.get("a"), list)


seed("client.frame.01", reads(_always(_whole)))
seed("client.frame.02", reads(_always(_first_message)))
seed("client.frame.03", reads(_limited))
seed("client.frame.04", reads(_always(_letters)))
seed("client.frame.05", disconnect_on(_is_noise))
seed("client.frame.06", reads(_always(_keep_cr)))
seed("client.frame.07", reads(_blank))
seed("client.frame.08", disconnect_on(lambda message: isinstance(message, bytes) and b"caf\xe9" in message))
seed("client.frame.09", disconnect_on(_nested))
seed(
    "client.frame.10", disconnect_on(lambda message: isinstance(message, dict) and "data" in message.get("params", {}))
)
