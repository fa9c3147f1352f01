"""The line below the conversation: the agent's mode, the model, the policy, how full the context is, and who is here.

Takes what was met and the session that is talked in, gives words; who draws them, and where, is decided above.
"""

from __future__ import annotations

from dragoman import ClientSession
from dragoman.cli.connect import settings
from dragoman.cli.connect.local import OpenSession
from dragoman.cli.ui.terminal import sanitize_line


def status_text(open_session: OpenSession, session: ClientSession) -> str:
    """Everything that is worth knowing now, discreetly."""
    model = settings.model_option(session)
    mode = next((name for id, name in settings.available_modes(session) if id == session.mode), session.mode)
    policy = open_session.permission_ui.guard.mode(session.id)
    parts = [
        mode or "",
        settings.current_value_text(model) if model is not None else "",
        f"policy: {policy}" if policy != "default" else "",
        usage_text(session),
        session.title or "",
        open_session.presence.status_text if open_session.presence is not None else "",
    ]
    return sanitize_line(" · ".join(part for part in parts if part))


def usage_text(session: ClientSession) -> str:
    """How full the context is, and what that cost."""
    used = session.usage
    if used is None:
        return ""
    cost = f", {used.cost.amount:.2f} {used.cost.currency}" if used.cost else ""
    return f"{_short_number(used.used)} of {_short_number(used.size)} tokens{cost}"


def _short_number(number: int) -> str:
    return f"{number / 1000:.1f}k".replace(".0k", "k") if number >= 1000 else str(number)
