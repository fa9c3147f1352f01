"""The panels beside the transcript: sessions at the left; plan, changes and members at the right."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from dragoman.cli.ui.rows import Piece, Row, clip_text, pad_pieces, peer_line, two_sides
from dragoman.tui import texts
from dragoman.tui.flow.parts import plan_rows
from dragoman.tui.session_list import ASKING, IDLE, RUNNING, ListedSession, Place
from dragoman.tui.tab.tab import Tab

# Steps, files and sessions listed in a panel; more are counted.
MAX_ITEMS = 12

STATE_SIGNS = {ASKING: ("●", "yellow"), RUNNING: ("◐", "cyan"), "ended": ("✗", "red")}


class PanelRow(NamedTuple):
    """A row of a panel, and the session that a click on it opens."""

    row: Row
    session: ListedSession | None = None


def tab_state(tab: Tab) -> str:
    """Return asking, running, ended or idle."""
    return ASKING if tab.is_asking else RUNNING if tab.is_running else tab.state if tab.state == "ended" else IDLE


def session_rows(places: Sequence[Place], tabs: Sequence[Tab], width: int, height: int) -> list[PanelRow]:
    """Return the sessions of all places; those in a tab with their state."""
    open_tabs = {key: tab for tab in tabs if (key := session_key(tab)) is not None}
    states = {each.key: each.state for place in places for each in place.sessions}
    states |= {key: tab_state(tab) for key, tab in open_tabs.items()}
    asking = sum(state == ASKING for state in states.values())
    need = [(f"{asking} need you" if asking > 1 else "1 needs you", "yellow")] if asking else []
    rows = [PanelRow(Row(two_sides([(texts.SESSIONS, "dim")], need, width)))]
    share = max(3, (height - 1) // max(1, len(places)) - 1)
    for place in places:
        name = peer_line(place.name) if place.name else texts.LOCAL
        rows.append(PanelRow(Row([(clip_text(name, width), "dim bold")])))
        if place.error:
            rows.append(PanelRow(Row([(clip_text(f" {peer_line(place.error)}", width), "red")])))
        elif not place.sessions:
            rows.append(PanelRow(Row([(f" {texts.NO_SESSIONS}", "dim")])))
        for listed in place.sessions[: share - 1]:
            tab = open_tabs.get(listed.key)
            rows.append(PanelRow(_session_row(listed, tab, width), listed))
        if len(place.sessions) > share - 1:
            rows.append(PanelRow(Row([(f" {len(place.sessions) - share + 1} more: Ctrl-O", "dim")])))
    return rows


def session_key(tab: Tab) -> tuple[str, str] | None:
    """Return what identifies the session of a tab: its host and its id there."""
    if tab.opened is None:
        return None
    host = tab.options.host
    id = tab.session.id if host is not None else getattr(tab.session, "log_id", None) or ""
    return (host.base_url if host is not None else "", str(id))


def _session_row(listed: ListedSession, tab: Tab | None, width: int) -> Row:
    state = tab_state(tab) if tab is not None else listed.state
    sign, style = STATE_SIGNS.get(state, ("○" if tab is None else "●", "dim" if tab is None else "green"))
    title = tab.title if tab is not None else peer_line(listed.title)
    people = f"{listed.members}⚇ " if listed.members > 1 else ""
    age: list[Piece] = [(f" {people}{short_age(listed.summary.updated_at)}", "dim")]
    left: list[Piece] = [(f" {sign} ", style), (title, "bold" if tab is not None else "")]
    return Row(two_sides(left, age, width))


def short_age(time: str, now: datetime | None = None) -> str:
    """Return how long ago a time was: now, 3 m, 2 h, 5 d."""
    try:
        then = datetime.fromisoformat(time)
    except ValueError:
        return ""
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"


def work_rows(tab: Tab, width: int) -> list[Row]:
    """Return plan, changed files, members and waiting prompts of a session."""
    rows: list[Row] = []
    plan = tab.flow.plan
    if plan:
        finished = sum(status == "completed" for status, _ in plan)
        rows.append(Row(two_sides([(texts.PLAN, "dim")], [(f"{finished} of {len(plan)}", "dim")], width)))
        rows += plan_rows(plan[:MAX_ITEMS], width)
        rows.append(Row())
    rows += _change_rows(tab, width)
    rows += _member_rows(tab, width)
    return rows


def _change_rows(tab: Tab, width: int) -> list[Row]:
    changes = tab.flow.changes()
    if not changes:
        return []
    total = _counts(sum(each[1] for each in changes), sum(each[2] for each in changes))
    rows = [Row(two_sides([(texts.CHANGES, "dim")], total, width))]
    cwd = (tab.opened.cwd if tab.opened is not None else "").rstrip("/") + "/"
    for path, added, removed in changes[:MAX_ITEMS]:
        name = peer_line(path.removeprefix(cwd))
        counts = _counts(added, removed)
        room = width - sum(len(text) for text, _ in counts) - 1
        rows.append(Row(two_sides([(name if len(name) <= room else f"…{name[1 - room :]}", "")], counts, width)))
    if len(changes) > MAX_ITEMS:
        rows.append(Row([(f"{len(changes) - MAX_ITEMS} more", "dim")]))
    return [*rows, Row()]


def _counts(added: int, removed: int) -> list[Piece]:
    pieces: list[Piece] = [(f" +{added}", "green")] if added else []
    return pieces + ([(f" -{removed}", "red")] if removed else [])


def _member_rows(tab: Tab, width: int) -> list[Row]:
    presence = tab.opened.presence if tab.opened is not None else None
    if presence is None or not presence.members:
        return []
    rows = [Row([(texts.HERE, "dim")])]
    has_own = False
    for member in presence.members[:MAX_ITEMS]:
        user, state = peer_line(str(member.get("user", ""))), str(member.get("state", ""))
        is_own = user == presence.user and not has_own
        has_own |= is_own
        doing = " you" if is_own else {"typing": " types…", "idle": " idle", "away": " away"}.get(state, "")
        sign = ("○ ", "dim") if state in ("idle", "away") else ("● ", "cyan" if is_own else "green")
        role: list[Piece] = [(peer_line(str(member.get("role", ""))), "dim")]
        rows.append(Row(two_sides([sign, (user, ""), (doing, "dim")], role, width)))
    return [*rows, Row()]


def framed(rows: Sequence[Row], width: int, height: int, *, at_left: bool) -> list[Row]:
    """Return exactly so many rows, with a line at one side."""
    line: Piece = ("│", "faint")
    filled = [*rows[:height], *[Row()] * (height - len(rows))]
    if at_left:  # the panel is at the left, so its line is at the right
        return [Row([*pad_pieces([("", ""), *row.pieces], width - 2), (" ", ""), line]) for row in filled]
    return [Row([line, (" ", ""), *pad_pieces(row.pieces, width - 2)]) for row in filled]
