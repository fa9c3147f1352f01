"""The line below the conversation: the agent's mode, the model, the policy, how full the context is, and who is here.

Takes what was met and the session that is talked in, gives words; who draws them, and where, is decided above.
"""

from __future__ import annotations

from dragoman import Conversation
from dragoman.cli.connect import settings
from dragoman.cli.connect.local import Met
from dragoman.cli.ui.terminal import single


def status(met: Met, session: Conversation) -> str:
    """Everything that is worth knowing now, discreetly."""
    model = settings.model(session)
    mode = next((name for id, name in settings.modes(session) if id == session.mode), session.mode)
    policy = met.leave.guard.mode(session.id)
    parts = [
        mode or "",
        settings.current(model) if model is not None else "",
        f"policy: {policy}" if policy != "default" else "",
        usage(session),
        session.title or "",
        met.company.status if met.company is not None else "",
    ]
    return single(" · ".join(part for part in parts if part))


def usage(session: Conversation) -> str:
    """How full the context is, and what that cost."""
    used = session.usage
    if used is None:
        return ""
    cost = f", {used.cost.amount:.2f} {used.cost.currency}" if used.cost else ""
    return f"{_short(used.used)} of {_short(used.size)} tokens{cost}"


def _short(number: int) -> str:
    return f"{number / 1000:.1f}k".replace(".0k", "k") if number >= 1000 else str(number)
