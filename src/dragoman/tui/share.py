"""Share the session of a tab: ask its host for a link, and show it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from dragoman.cli.host_client.api import request_json
from dragoman.cli.sessions.change import DEFAULT_LIFETIME
from dragoman.cli.ui.format import format_expiry
from dragoman.cli.ui.rows import Row, wrap_text
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.tui import texts
from dragoman.tui.overlays import Page

if TYPE_CHECKING:
    from dragoman.tui.app import TuiApp


def share_session(app: TuiApp, role: str) -> None:
    """Share the session with a role."""
    tab = app.tab
    if tab is None or tab.options.host is None or tab.opened is None:
        app.show_hint(texts.NOT_ON_HOST)
    else:
        app.run_in_background(_share(app, role))


async def _share(app: TuiApp, role: str) -> None:
    host, session_id = app.shown_tab.options.host, app.shown_tab.session.id
    assert host is not None
    path = f"/api/sessions/{quote(session_id, safe='')}/shares"
    try:
        answer = await request_json(host, "POST", path, {"role": role, "seconds": DEFAULT_LIFETIME, "name": ""})
    except (ProtocolError, ConnectionFailed) as error:
        app.show_hint(str(error))
        return
    link = f"{host.agent_url()}?token={answer['token']}"
    about = texts.share_text(role, format_expiry(answer.get("expires")), session_id, str(answer.get("id", "")))

    def rows(width: int) -> list[Row]:
        return [*wrap_text(link, width, "bold"), Row(), *wrap_text(about, width, "dim")]

    app.overlay = Page(texts.SHARE_TITLE, rows, copy_text=lambda: link)
    app.request_frame()
