"""How this terminal shows pictures: by its variables, and by the version that it says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

# The first kitty that has placeholders.
_FIRST_WITH_PLACEHOLDERS = (0, 28)


class Protocol(NamedTuple):
    """How a terminal shows pictures."""

    name: str  # kitty, iterm, sixel or ""
    is_inline: bool = False  # in the transcript, not only alone


NONE, ALONE, INLINE = Protocol(""), Protocol("kitty"), Protocol("kitty", is_inline=True)


def find_protocol(environ: Mapping[str, str] = os.environ) -> Protocol:
    """Return what this terminal can; DRAGOMAN_IMAGES=kitty, iterm, sixel or none decides.

    Terminals inside a multiplexer do not get pictures unless the user says so: most multiplexers remove them.
    """
    if chosen := environ.get("DRAGOMAN_IMAGES", ""):
        return INLINE if chosen == "kitty" else Protocol(chosen) if chosen in ("iterm", "sixel") else NONE
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if environ.get("TMUX") or environ.get("STY") or term.startswith(("screen", "tmux")):
        return NONE
    if environ.get("KITTY_WINDOW_ID") or "kitty" in term or program == "ghostty" or "ghostty" in term:
        return INLINE
    if program in ("iTerm.app", "WezTerm"):
        return Protocol("iterm")
    if term.startswith(("foot", "mlterm", "yaft", "contour")) or environ.get("SIXEL"):
        return Protocol("sixel")
    return NONE


def check_version(protocol: Protocol, ask_version: Callable[[], str]) -> Protocol:
    """Return what a terminal with the kitty protocol can by its version: an old kitty shows pictures only alone."""
    if not protocol.is_inline or os.environ.get("DRAGOMAN_IMAGES"):
        return protocol
    found = re.match(r"kitty\((\d+)\.(\d+)", ask_version())
    return ALONE if found and (int(found[1]), int(found[2])) < _FIRST_WITH_PLACEHOLDERS else protocol
