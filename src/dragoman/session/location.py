"""Where an agent is at work: the places its tool calls name, for a client that follows it (seed 004 section 8.5).

Pure: takes the locations of a tool call before and after an update, gives the places that are new. Ranges
are the draft's; other dialects know a path and a line.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.dialect.side_data import side_data_of


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A file, and perhaps a range in it, that a tool call is about; lines and columns count from 1."""

    path: str
    tool_call_id: str
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None


def locations_of(tool_call_id: str, locations: Any) -> list[Location]:
    """The places that the locations of a tool call name."""
    return [_location(tool_call_id, location) for location in locations or ()]


def new_locations(tool_call_id: str, before: Any, after: Any) -> list[Location]:
    """The places that were not named before: agents repeat the whole list with every change."""
    known = locations_of(tool_call_id, before)
    return [place for place in locations_of(tool_call_id, after) if place not in known]


def _location(tool_call_id: str, location: Any) -> Location:
    beside = side_data_of(location)
    return Location(
        path=location.path,
        tool_call_id=tool_call_id,
        line=_number(location.line),
        column=_number(beside.get("column")),
        end_line=_number(beside.get("endLine")),
        end_column=_number(beside.get("endColumn")),
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
