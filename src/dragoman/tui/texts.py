"""The texts of the full-screen terminal, in one place."""

from __future__ import annotations

from dragoman.cli.ui.format import format_count

YOU = "You"
THINKING = "thinking…"

PLAN, CHANGES, HERE, SESSIONS = "Plan", "Changes", "Here", "Sessions"
LOCAL = "this machine"
NO_SESSIONS = "no sessions yet"
EMPTY = "Type a prompt below. ? shows the keys."
PROMPT_HINT = "Ask the agent…  @file  /command"
PROMPT_HINT_BROWSING = "Browsing: j k move, o opens, / finds, i or Esc writes"
PROMPT_HINT_FINDING = "Type words to find: Enter finds them, Esc ends"
PROMPT_HINT_RUNNING = "Goes into the queue while the agent works"
STARTING = "starting…"
NOT_STARTED = "did not start"

QUESTION_TAB = "Tab: answer"
WAY_OUT = "Esc stops the agent"
WRONG_KEY = "press one of these keys; Tab goes to the prompt"

QUIT_HINT = "press Ctrl-C again to quit"
STOPPING = "stopping; press Ctrl-C again to quit"
NOTHING_TO_COPY = "nothing to copy"
NOT_FOUND = "not found"
NO_LOCATION = "the agent named no file here"
NO_EDITOR = "set EDITOR to open files"
START_AGAIN = "the next prompt starts the agent again"
START_STOPPED = "the start was stopped; the next prompt starts the agent again"

KIND_LABELS = {
    "read": "Read",
    "edit": "Edit",
    "delete": "Delete",
    "move": "Move",
    "search": "Search",
    "execute": "Run",
    "think": "Think",
    "fetch": "Fetch",
    "switch_mode": "Mode",
    "other": "Tool",
}

STATUS_LABELS = {
    "pending": "waits",
    "awaiting_permission": "asks you",
    "in_progress": "runs",
    "denied": "denied",
    "cancelled": "cancelled",
    "failed": "failed",
}


def thought_for(seconds: float | None) -> str:
    """Return the title of a thought."""
    return f"thought for {format_seconds(seconds)}" if seconds is not None and seconds >= 1 else "thought"


def format_seconds(seconds: float) -> str:
    """Return a duration: 0.8 s, 12 s, 1 min 12 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def more_characters(count: int) -> str:
    """Return how much of a line is left out."""
    return f"… {count:,} more characters in this line (o shows more, e opens all)"


def more_text(size: str) -> str:
    """Return how much of a message is left out."""
    return f"… {size} more (o shows more, e opens all in the editor)"


def more_rows(count: int) -> str:
    """Return how many rows are left out below."""
    return f"… {format_count(count, 'more line')} (o opens)"


def earlier_rows(count: int) -> str:
    """Return how many rows are left out above."""
    return f"… {format_count(count, 'line')} before (o opens)"


def share_text(role: str, expiry: str, session_id: str, share_id: str) -> str:
    """Return what to know about a share link."""
    return (
        f"For a {role}, valid {expiry}. Everybody who has the link can use it: treat it like a password. y copies it. "
        f"To end it: dragoman sessions share {session_id} --revoke {share_id}"
    )


def waiting(count: int) -> str:
    """Return how many prompts wait."""
    return f"{count} waits" if count == 1 else f"{count} wait"


NO_AGENT = "the agent of this session is not known here: dragoman agents add NAME -- COMMAND"
NO_AGENTS = "no agent is configured or on PATH: dragoman agents add NAME -- COMMAND"
NO_TERMINAL = "nothing here has output of its own"
NOT_ON_HOST = "only a session on a host can be shared: dragoman serve, then dragoman tui --host"
COPIED = "copied"
FOLLOWING, NOT_FOLLOWING = "following the agent", "not following the agent"
COPY_HINT = "copy mode: v marks, y copies, Esc leaves"
NO_FILE = "there is no such file on this machine"
NO_IMAGES = "this terminal does not show this picture"
PRESS_KEY = "press Enter to return"

HELP_TITLE = "Keys"
PALETTE_TITLE = "All actions"
OPEN_TITLE = "Open a session"
NEW_TITLE = "New session with"
HISTORY_TITLE = "Earlier prompts"
SHARE_TITLE = "Share link"

ACTION_NEW = "New session in a new tab"
ACTION_OPEN = "Open a session"
ACTION_FIND = "Find in the transcript"
ACTION_FOLLOW = "Follow the agent"
ACTION_SPLIT = "Diffs side by side or one below the other"
ACTION_COPY = "Copy the last answer"
ACTION_PANELS = "Show or hide the panels"
ACTION_SHARE_VIEWER = "Share: a link to read along"
ACTION_SHARE_EDITOR = "Share: a link to work together"
ACTION_CLOSE = "Close the tab"
ACTION_HELP = "Show the keys"
ACTION_QUIT = "Quit"
ACTION_THEME = "Theme"

HELP_END = (
    "Mouse: the wheel scrolls, a click selects, a second one opens, dragging marks and copies;",
    "with Shift, the terminal itself marks.",
    "A key answers a question only after it was on the screen for a moment, and only if the prompt is empty;",
    "Tab goes to the question. :help lists the commands of the prompt.",
)

STATUS_KEYS = {
    "stop": "Esc stops",
    "browse": "Esc browses",
    "back": "Esc back",
    "editor": "^G editor",
    "all": "^K all",
    "help": "? keys",
}
