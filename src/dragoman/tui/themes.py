"""Themes: what the styles of rows look like. `dark`, `light`, and `none` for terminals without color.

A style is a list of words. A word with a colon is a color as prompt_toolkit writes it; any other is
a class of the theme.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

# Attributes that need no color.
_PLAIN = {
    "bold": "bold",
    "italic": "italic",
    "underline": "underline",
    "strike": "strike",
    "reverse": "reverse",
    "title": "bold",
    "ask": "bold",
    "ask-bar": "bold",
    "key": "bold",
    "picked": "reverse",
    "found": "reverse",
    "selected": "reverse",
    "tab-active": "reverse",
    "removed-word": "underline",
    "added-word": "underline bold",
    "you": "bold",
    "cursor-row": "reverse",
    "completion-menu": "noreverse",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion.current": "reverse",
}

_DARK = {
    "dim": "#8a94a3",
    "faint": "#434b57",
    "title": "bold bg:#161b22",
    "title-dim": "#8a94a3 bg:#161b22",
    "tab-active": "bold #e6e9ee bg:#22303f",
    "red": "#f0827d",
    "green": "#7ecf8a",
    "yellow": "#e8b35c",
    "cyan": "#6fc3dd",
    "code": "#9fd0e6",
    "keyword": "#c8a0f0",
    "type": "#e8b35c",
    "function": "#7fb4f5",
    "string": "#9bd28a",
    "number": "#e0a37a",
    "comment": "#77818f",
    "ask": "bold #f2bd64",
    "ask-bar": "#f2bd64",
    "ask-body": "",
    "key": "bold #e6e9ee bg:#22303f",
    "you": "#6fc3dd",
    "number-column": "#5a6472",
    "added": "bg:#12301c",
    "added-word": "bg:#1f6334 bold",
    "removed": "bg:#3a171a",
    "removed-word": "bg:#7a2b30 bold",
    "absent": "bg:#12161c",
    "card": "bg:#12161c",
    "cursor-row": "bg:#1b2733",
    "picked": "bg:#22303f bold",
    "found": "#14181f bg:#e8b35c",
    "found-here": "#14181f bg:#ffd98a bold",
    "selected": "bg:#2b4a66",
    "panel": "bg:#10141a",
    "live": "#7ecf8a",
    "completion-menu": "bg:#161b22 #c6ccd6",
    "completion-menu.completion": "bg:#161b22 #c6ccd6",
    "completion-menu.completion.current": "bg:#2b4a66 #ffffff",
    "completion-menu.meta.completion": "bg:#161b22 #8a94a3",
    "completion-menu.meta.completion.current": "bg:#2b4a66 #c6ccd6",
}

_LIGHT = {
    "dim": "#66707d",
    "faint": "#c3c9d1",
    "title": "bold bg:#eef0f3",
    "title-dim": "#66707d bg:#eef0f3",
    "tab-active": "bold #14181f bg:#d3e4f2",
    "red": "#b3261e",
    "green": "#1b7a34",
    "yellow": "#8a5a00",
    "cyan": "#0b6b8a",
    "code": "#0b5a78",
    "keyword": "#7b35b8",
    "type": "#8a5a00",
    "function": "#1d5fb4",
    "string": "#2a6f23",
    "number": "#a04a14",
    "comment": "#707a87",
    "ask": "bold #8a5a00",
    "ask-bar": "#c98a1b",
    "ask-body": "",
    "key": "bold #14181f bg:#d3e4f2",
    "you": "#0b6b8a",
    "number-column": "#949da9",
    "added": "bg:#e2f5e6",
    "added-word": "bg:#a6e0b3 bold",
    "removed": "bg:#fbe6e5",
    "removed-word": "bg:#f3b5b1 bold",
    "absent": "bg:#f4f5f7",
    "card": "bg:#f4f5f7",
    "cursor-row": "bg:#e3edf6",
    "picked": "bg:#d3e4f2 bold",
    "found": "#14181f bg:#f7d58b",
    "found-here": "#14181f bg:#f0a93a bold",
    "selected": "bg:#bcd8ef",
    "panel": "bg:#f8f9fa",
    "live": "#1b7a34",
    "completion-menu": "bg:#eef0f3 #2a3038",
    "completion-menu.completion": "bg:#eef0f3 #2a3038",
    "completion-menu.completion.current": "bg:#bcd8ef #000000",
    "completion-menu.meta.completion": "bg:#eef0f3 #66707d",
    "completion-menu.meta.completion.current": "bg:#bcd8ef #2a3038",
}

THEMES: dict[str, dict[str, str]] = {
    "dark": {**_PLAIN, **_DARK},
    "light": {**_PLAIN, **_LIGHT},
    "none": _PLAIN,
}


def default_theme(environ: Mapping[str, str] = os.environ) -> str:
    """Return the theme for this terminal: none with NO_COLOR, light where COLORFGBG says so, else dark."""
    if environ.get("NO_COLOR") or environ.get("TERM", "").endswith(("-m", "-mono")):
        return "none"
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"


# With 256 colors, the nearest colors of these backgrounds would be gray.
_FEW_COLORS = {
    "dark": {
        "dim": "#8a8a8a",
        "title-dim": "#8a8a8a bg:#262626",
        "added": "bg:#005f00",
        "added-word": "bg:#008700 bold",
        "removed": "bg:#5f0000",
        "removed-word": "bg:#af0000 bold",
    },
    "light": {
        "added": "bg:#d7ffd7",
        "added-word": "bg:#87d787 bold",
        "removed": "bg:#ffd7d7",
        "removed-word": "bg:#ff8787 bold",
    },
}


def has_true_color(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the terminal says that it has 16 million colors."""
    return environ.get("COLORTERM", "") in ("truecolor", "24bit")


def create_style(theme: str) -> Any:
    """Return the style sheet of a theme, for prompt_toolkit."""
    from prompt_toolkit.styles import Style

    return Style.from_dict(THEMES[theme] | ({} if has_true_color() else _FEW_COLORS.get(theme, {})))


def color_depth(theme: str) -> Any:
    """Return how many colors to use; None: as many as TERM says."""
    from prompt_toolkit.output import ColorDepth

    if theme == "none":
        return ColorDepth.DEPTH_1_BIT
    return ColorDepth.DEPTH_24_BIT if has_true_color() else None


@lru_cache(maxsize=4096)
def style_string(style: str) -> str:
    """Return a style of a row as prompt_toolkit writes it."""
    words = [word if ":" in word else f"class:{word}" for word in style.split()]
    return " ".join(words)
