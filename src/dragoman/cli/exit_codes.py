"""How a command says that it ended: THE table of exit codes, and the words for help."""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
REFUSED = 3
LIMIT = 4
CANCELLED = 5
PERMISSION_REFUSED = 6
DIED = 7
NO_SANDBOX = 8
TIMEOUT = 9
NO_STORE = 10
INTERRUPTED = 130  # 128 + SIGINT, as shells count

# Why a turn ended -> exit code; a reason that is not here is an error.
BY_STOP_REASON: dict[str, int] = {
    "end_turn": OK,
    "refusal": REFUSED,
    "max_tokens": LIMIT,
    "max_turn_requests": LIMIT,
    "cancelled": CANCELLED,
}

TABLE: tuple[tuple[int, str], ...] = (
    (OK, "the agent ended its turn"),
    (FAILED, "an error"),
    (USAGE, "wrong usage, or a file of yours that cannot be used"),
    (REFUSED, "the agent refused"),
    (LIMIT, "a limit was reached (tokens, requests)"),
    (CANCELLED, "cancelled"),
    (PERMISSION_REFUSED, "the turn ended, but something was refused without you being asked"),
    (DIED, "the agent did not start, or died"),
    (NO_SANDBOX, "the sandbox cannot be had here"),
    (TIMEOUT, "it took longer than --timeout"),
    (NO_STORE, "the session cannot be kept: the store is locked, full, read-only, newer or damaged"),
    (INTERRUPTED, "ended by Ctrl-C"),
)


def help_text() -> str:
    """The table for help."""
    return "exit codes:\n" + "\n".join(f"  {code:3}  {meaning}" for code, meaning in TABLE)
