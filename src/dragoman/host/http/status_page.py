"""The status page of a host as plain HTML, without scripts, usable on a phone.

Shows only what its reader may see, and no content: not even titles, which are made from prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from msgspec import Struct

# No scripts, no images, no other origins: injected content could do nothing.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --dim: #666; --awake: #176a2c; }
@media (prefers-color-scheme: dark) { :root { --dim: #aaa; --awake: #7fd896; } }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 60rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; } .dim { color: var(--dim); }
dl { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin: 1rem 0 0; }
dl div { min-width: 6rem; } dt { color: var(--dim); font-size: .875rem; } dd { margin: 0; font-size: 1.25rem; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; } thead th { color: var(--dim); font-size: .875rem; }
th, td { padding: .5rem .75rem .5rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: anywhere; } code { font-family: ui-monospace, monospace; font-size: .9375em; }
.awake { color: var(--awake); font-weight: 600; }
@media (max-width: 40rem) {
  thead { position: absolute; clip-path: inset(50%); }
  tr { display: block; border-bottom: 1px solid var(--line); padding: .5rem 0; }
  td, tbody th { display: flex; gap: .75rem; border: 0; padding: .125rem 0; }
  td::before, tbody th::before { content: attr(data-name); color: var(--dim); font-weight: 400; flex: 0 0 5.5rem; }
}
"""


class SessionView(Struct, frozen=True, kw_only=True):
    """What the page shows of one session."""

    id: str
    name: str
    agent: str
    is_awake: bool
    is_working: bool
    members: Sequence[Mapping[str, Any]]  # user, role, state, client
    updated: str


def render_page(
    *,
    version: str,
    uptime: float,
    user: str,
    agents: Sequence[tuple[str, str]],
    sessions: Sequence[SessionView],
    left_out: int = 0,
    counts: Mapping[str, int],
) -> str:
    """Return the page. `agents` are names and addresses."""
    figures = {"up for": format_duration(uptime), **{name: str(number) for name, number in counts.items()}}
    facts = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures.items())
    more = f'<p class="dim">and {left_out} more that did not change lately</p>' if left_out else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dragoman host</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>Dragoman host</h1>
<p class="dim">version {escape(version)}, for {escape(user)}</p>
<dl>{facts}</dl>
</header>
<main>
<section aria-labelledby="agents">
<h2 id="agents">Agents</h2>
{_render_table("Agents and their addresses", ("name", "address"), (_agent_row(*each) for each in agents))}
</section>
<section aria-labelledby="sessions">
<h2 id="sessions">Sessions</h2>
{_render_sessions(sessions)}{more}
</section>
</main>
</body>
</html>
"""


def _render_sessions(sessions: Sequence[SessionView]) -> str:
    if not sessions:
        return "<p>You have none yet.</p>"
    names = ("session", "state", "agent", "people", "changed")
    return _render_table("Sessions that you may see", names, map(_session_row, sessions))


def _session_row(session: SessionView) -> list[str]:
    state = "working" if session.is_working else "awake" if session.is_awake else "asleep"
    people = ", ".join(
        f"{member.get('user', '')} ({member.get('role', '')}{_state_suffix(member.get('state'))})"
        for member in session.members
    )
    return [
        f"<code>{escape(session.name or session.id[:8])}</code>",
        f'<span class="{"awake" if session.is_awake else "dim"}">{state}</span>',
        escape(session.agent) or "not known",
        escape(people) or "nobody",
        f'<time datetime="{escape(session.updated)}">{escape(session.updated[:16].replace("T", " "))} UTC</time>',
    ]


def _state_suffix(state: Any) -> str:
    return f", {state}" if state in ("typing", "idle", "away") else ""


def _agent_row(name: str, address: str) -> list[str]:
    return [escape(name), f"<code>{escape(address)}</code>"]


def _render_table(caption: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose rows become cards on a phone. The first cell of a row is its heading."""
    head = "".join(f'<th scope="col" role="columnheader">{escape(name)}</th>' for name in names)
    body = "".join(
        '<tr role="row">'
        + "".join(
            f'<th scope="row" role="rowheader" data-name="{name}"><span>{cell}</span></th>'
            if at == 0
            else f'<td role="cell" data-name="{name}"><span>{cell}</span></td>'
            for at, (name, cell) in enumerate(zip(names, row, strict=True))
        )
        + "</tr>"
        for row in rows
    )
    label = escape(caption)
    # On a phone the rows are not rows to the browser any more; the ARIA roles keep them so.
    return (
        f'<table role="table" aria-label="{label}"><thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{body}</tbody></table>'
    )


def format_duration(seconds: float) -> str:
    """Return a duration in words."""
    for unit, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit:
            number = int(seconds // unit)
            return f"{number} {word}{'' if number == 1 else 's'}"
    return "a moment"
