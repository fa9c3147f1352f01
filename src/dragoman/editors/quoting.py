"""Texts as string literals of Lua and Emacs Lisp, and of a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

_SPECIAL = re.compile(r'[\x00-\x1f\x7f\\"]')

_LUA_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def lua_string(text: str) -> str:
    """Return a Lua string; control characters are written by number."""
    return f'"{_SPECIAL.sub(_lua_escape, text)}"'


def _lua_escape(match: re.Match[str]) -> str:
    return _LUA_ESCAPES.get(match[0], f"\\{ord(match[0]):03d}")


def lua_list(texts: Iterable[str]) -> str:
    """Return a Lua table of strings."""
    items = ", ".join(map(lua_string, texts))
    return f"{{ {items} }}" if items else "{}"


def lisp_string(text: str) -> str:
    """Return an Emacs Lisp string."""
    return f'"{_SPECIAL.sub(_lisp_escape, text)}"'


def _lisp_escape(match: re.Match[str]) -> str:
    # An escape by number ends at "\ ", which stands for nothing, so that a digit after it is not part of it.
    return f"\\{match[0]}" if match[0] in '\\"' else f"\\x{ord(match[0]):x}\\ "


def lisp_list(texts: Iterable[str]) -> str:
    """Return a quoted Emacs Lisp list of strings."""
    items = " ".join(map(lisp_string, texts))
    return f"'({items})" if items else "nil"


def shell_line(words: Iterable[str]) -> str:
    """Return a command line for a shell."""
    return shlex.join(words)
