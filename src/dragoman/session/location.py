"""The files and lines that tool calls refer to, for a client that follows an agent
(docs/protocol/draft.md#location). Ranges exist only in the draft; other dialects have a path and a line.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialect.side_data import side_data_of


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A file, and optionally a range in it, that a tool call refers to. Lines and columns start at 1."""

    path: str
    tool_call_id: str
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None


def locations_of(tool_call_id: str, locations: Any) -> list[Location]:
    """Return the locations of a tool call."""
    return [_location(tool_call_id, location) for location in locations or ()]


def new_locations(tool_call_id: str, before: Any, after: Any) -> list[Location]:
    """Return the locations that were not in the list before. Agents resend the whole list with every change."""
    known = locations_of(tool_call_id, before)
    return [location for location in locations_of(tool_call_id, after) if location not in known]


def _location(tool_call_id: str, location: Any) -> Location:
    side = side_data_of(location)
    return Location(
        path=location.path,
        tool_call_id=tool_call_id,
        line=_number(location.line),
        column=_number(side.get("column")),
        end_line=_number(side.get("endLine")),
        end_column=_number(side.get("endColumn")),
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
