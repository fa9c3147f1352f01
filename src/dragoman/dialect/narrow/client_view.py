"""What a client can be told beyond the official minimum, from the capabilities that it announced."""

from __future__ import annotations

from typing import Any, Final

import msgspec

# The keys of tool calls for pieces of a terminal's output, best first, as clients announce them in the `_meta` of
# their capabilities: the client shows a terminal that the agent runs.
OUTPUT_KEYS: Final = ("terminal_output_delta", "terminal_output")


class ClientView(msgspec.Struct, frozen=True, kw_only=True):
    """What the client shows."""

    plans: bool = False  # more than one, by their ids
    notices: bool = False
    compaction: bool = False
    subagents: bool = False
    switches: bool = False  # boolean options
    output_key: str | None = None  # for output of the agent's terminals; None: as text


def view_of(capabilities: Any) -> ClientView:
    """Return what a client with these capabilities shows; None: it announced nothing."""
    if not capabilities:
        return ClientView()
    session = capabilities.session or None
    options = session.config_options or None if session else None
    meta = capabilities.meta or {}
    return ClientView(
        plans=_is_present(capabilities.plan),
        notices=session is not None and _is_present(session.notices),
        compaction=session is not None and _is_present(session.compaction),
        subagents=_is_present(capabilities.subagents),
        switches=options is not None and _is_present(options.boolean),
        output_key=next((key for key in OUTPUT_KEYS if meta.get(key) is True), None),
    )


def _is_present(marker: Any) -> bool:
    return marker is not msgspec.UNSET and marker is not None
