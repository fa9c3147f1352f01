"""Amounts as people type them: 90d, 2h, 500M.

Takes the text of a flag, gives a number; what is none ends the command with how it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dragoman.cli.parser import Parser

SECONDS_PER_UNIT: Mapping[str, float] = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365 * 86400.0, "m": 60.0}
_UNIT_NAMES = {"h": "h(ours)", "d": "d(ays)", "w": "w(eeks)", "y": "y(ears)", "m": "m(inutes)"}
BYTES_PER_UNIT: Mapping[str, float] = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_amount(parser: Parser, flag: str, text: str | None, units: Mapping[str, float]) -> float | None:
    """The amount; None when the flag was not given."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]?)", text)
    unit = "" if found is None else next((unit for unit in units if unit.lower() == found[2].lower()), None)
    if found is None or unit is None or unit not in units:
        spelled = ", ".join(
            _UNIT_NAMES.get(unit, unit) if units is SECONDS_PER_UNIT else unit for unit in units if unit
        )
        parser.error(f"{flag}: a number and {spelled}, as in 90{list(units)[1]}")
    return float(found[1]) * units[unit]


def parse_duration(parser: Parser, text: str | None, default: float) -> float:
    """How long something counts, from --for: seconds, or `otherwise` when nothing was said; never no time at all."""
    seconds = parse_amount(parser, "--for", text, SECONDS_PER_UNIT)
    if seconds == 0:
        parser.error("--for: for no time at all it would be of no use; say longer, as in 1h")
    return default if seconds is None else seconds
