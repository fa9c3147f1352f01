"""Texts that try to be more than text: for the page, and for whoever reads it."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "web" / "hostile.json"

_WRAPPERS = ("{}", "**{}**", "- {}", "> {}", "`{}`", "# {}")


def hostile_texts() -> list[str]:
    """Return the texts: more than two hundred."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    invisible = [_expand(each) for each in data["invisible"]]
    wrapped = [wrapper.replace("{}", text) for text, wrapper in product(data["scripts"], _WRAPPERS)]
    others = [_expand(each) for each in (*data["markdown"], *data["long"])]
    return [*wrapped, *invisible, *(f"*{text}*" for text in invisible), *others]


def _expand(text: Any) -> str:
    """Return a text, or one that is written as a repeated part."""
    if isinstance(text, str):
        return text
    return str(text["repeat"]) * int(text["times"]) + str(text.get("then", ""))
