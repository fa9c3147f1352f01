"""The proxy `record`: writes the messages at its place in the chain into a recording (`dragoman inspect show FILE`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable

from msgspec import UNSET

from dragoman.config.paths import new_recording_path
from dragoman.policy.message_secrets import FrameRedactor
from dragoman.roles.proxy.built_in.option import ProxyOption
from dragoman.roles.proxy.functions import Passing, ProxyFunctions
from dragoman.schema.side import Side
from dragoman.transport.recording.format import TO_AGENT, TO_CLIENT
from dragoman.transport.recording.recorder import Recorder
from dragoman.wire.envelope import encode_call, encode_error, encode_result

OPTIONS = (ProxyOption("--out", str, "the file; if it exists, FILE-2, FILE-3 and so on"),)


def make(out: str = "") -> RecordProxy:
    """Return the proxy."""
    return RecordProxy(os.path.abspath(os.path.expanduser(out)) if out else "")


class RecordProxy:
    """Records what passes."""

    name = "record"

    def __init__(self, path: str) -> None:
        self._path = path

    def extend(self, functions: ProxyFunctions) -> Callable[[], Awaitable[None]]:
        """Record everything that passes one chain."""
        path = self._path or new_recording_path()
        recorder = Recorder(path, ["dragoman", *sys.argv[1:]], functions.report, FrameRedactor())
        functions.report(f"{functions.name} records to {recorder.path}")

        def record(passing: Passing) -> None:
            recorder.record(TO_AGENT if passing.receiver is Side.AGENT else TO_CLIENT, _frame(passing) + b"\n")

        functions.rewrites.append(record)

        async def close() -> None:
            recorder.close("the chain ended")

        return close


def _frame(passing: Passing) -> bytes:
    if passing.kind == "result":
        return encode_result(passing.id, passing.raw)
    if passing.kind == "error":
        return encode_error(passing.id, passing.raw)
    return encode_call(UNSET if passing.id is None else passing.id, passing.method, passing.raw)
