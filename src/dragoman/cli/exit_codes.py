"""Exit codes of all commands, and their text for --help."""

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
HANGUP = 129  # 128 + SIGHUP
INTERRUPTED = 130  # 128 + SIGINT, as in shells
TERMINATED = 143  # 128 + SIGTERM
BROKEN_PIPE = 141  # 128 + SIGPIPE: the reader of our output is gone

# Stop reason of a turn to exit code; any other stop reason is an error.
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
    (USAGE, "wrong usage, or a file that cannot be used"),
    (REFUSED, "the agent refused the prompt"),
    (LIMIT, "a limit was reached (tokens, requests)"),
    (CANCELLED, "cancelled"),
    (PERMISSION_REFUSED, "the turn ended, but a permission was refused without asking you"),
    (DIED, "the agent did not start, or exited"),
    (NO_SANDBOX, "the sandbox is not available on this machine"),
    (TIMEOUT, "the run took longer than --timeout"),
    (NO_STORE, "the store cannot be used (locked, full, read-only, damaged or too new)"),
    (HANGUP, "the terminal was closed (SIGHUP)"),
    (INTERRUPTED, "interrupted by Ctrl-C"),
    (TERMINATED, "ended by SIGTERM"),
)


def help_text() -> str:
    """Return the table for --help."""
    return "exit codes:\n" + "\n".join(f"  {code:3}  {meaning}" for code, meaning in TABLE)
