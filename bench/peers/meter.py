"""What a process says about itself: CPU time and memory between a mark and now.

Peak memory is VmHWM, reset at the mark, where Linux offers it. ru_maxrss would be wrong for an agent: it
survives exec, so a small agent started by a large client shows the client's peak as its own.
"""

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5): resets the peak resident set size to the current one


def cpu_seconds() -> float:
    """User and system time this process has used so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _resident(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def peak_bytes() -> int:
    """The largest resident size since the last mark (since exec where the peak cannot be reset)."""
    if _STATUS.exists():
        return _resident("VmHWM:")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Meter:
    """CPU and memory since `mark`."""

    def __init__(self) -> None:
        self._cpu = 0.0
        self._resident = 0
        self.mark()

    def mark(self) -> None:
        """Everything read later counts from here."""
        try:
            _CLEAR_REFS.write_text(_RESET_PEAK)
        except OSError:
            pass  # no such file, or no leave: the peak then counts from exec
        self._resident = _resident("VmRSS:") if _STATUS.exists() else peak_bytes()
        self._cpu = cpu_seconds()

    def read(self) -> dict[str, float]:
        """`cpu` in seconds, `peak` in bytes, `growth` of the peak over the size at the mark in bytes."""
        cpu = cpu_seconds() - self._cpu
        peak = peak_bytes()
        return {"cpu": cpu, "peak": float(peak), "growth": float(max(0, peak - self._resident))}
