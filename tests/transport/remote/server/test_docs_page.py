"""The page about serving lists every limit and every status of the endpoint."""

from __future__ import annotations

import re
from pathlib import Path

from dragoman.transport.remote.errors import STATUS_KINDS
from dragoman.transport.remote.server.limits import ServerLimits

PAGE = (Path(__file__).parents[4] / "docs" / "serving.md").read_text(encoding="utf-8")


def test_every_limit_is_on_the_page() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE.partition("## Limits")[2].partition("## After")[0]))
    assert set(ServerLimits.__struct_fields__) <= named


def test_every_status_is_on_the_page() -> None:
    found = set(re.findall(r"\b[2345]\d\d\b", PAGE.partition("## What a request gets")[2].partition("## Limits")[0]))
    assert {str(status) for status in STATUS_KINDS} - {"431"} <= found
