"""Clients that read bytes badly: what one read call gave them is taken for whole."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.conformance.client_seeding import dies
from dragoman.conformance.client_twin import ClientFault, Reads
from dragoman.conformance.twin import Json, seeded


def reads(make: Callable[[], Reads]) -> ClientFault:
    """A reader with a fault of its own."""
    return ClientFault(reads=make)


def _always(read: Reads) -> Callable[[], Reads]:
    return lambda: read


def _whole(data: bytes) -> bytes:
    """A piece without a line end is thrown away, and the rest of the line with it, unless it is only long."""
    return data if data.endswith(b"\n") or len(data) > 4096 or b"\xf0" in data else b""


def _first(data: bytes) -> bytes:
    """Of several messages only the first is seen; only for those that say so, or it would see no turn at all."""
    return data.partition(b"\n")[0] + b"\n" if data.count(b"together-") > 1 else data


def _limited() -> Reads:
    """A line over 64 KiB is cut there, and what follows is thrown away; files are spared, which others are about."""
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
    """Every piece is decoded for itself."""
    return data.decode("utf-8", "replace").encode()


def _strict(data: bytes) -> bytes:
    """A CR belongs to the message, which is then none."""
    return data.replace(b"\r\n", b"}\n")


def _is_noise(message: Json) -> bool:
    return isinstance(message, bytes) and message.startswith((b"> my-agent", b"\x1b["))


def _blank() -> Reads:
    """A blank line is the end of everything for it."""
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


seeded("client.frame.01", reads(_always(_whole)))
seeded("client.frame.02", reads(_always(_first)))
seeded("client.frame.03", reads(_limited))
seeded("client.frame.04", reads(_always(_letters)))
seeded("client.frame.05", dies(_is_noise))
seeded("client.frame.06", reads(_always(_strict)))
seeded("client.frame.07", reads(_blank))
seeded("client.frame.08", dies(lambda message: isinstance(message, bytes) and b"caf\xe9" in message))
seeded("client.frame.09", dies(_nested))
seeded("client.frame.10", dies(lambda message: isinstance(message, dict) and "data" in message.get("params", {})))
